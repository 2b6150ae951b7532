"""Choice of the server that is meant."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from web.commands.client.run import run
from web.commands.client.target import Target, chosen_target, running


def test_a_key_comes_from_the_flag_the_variable_or_the_first_line_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("first\nsecond\n")
    assert running("http://x", None, None) == Target("http://x")
    assert running("http://x", None, file) == Target("http://x", "first")
    assert running("http://x", "given", file) == Target("http://x", "given")
    monkeypatch.setenv("CEDE_API_KEY", "one two")  # a server reads several
    monkeypatch.setenv("CEDE_URL", "http://y")
    assert chosen_target(run.make_context("run", ["hello"])) == Target("http://y", "one")


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xff", "ключ".encode()])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(click.UsageError):
        running("http://x", None, file)


def test_a_model_in_this_process_takes_its_own_options_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEDE_URL", "http://y")  # is for when no model is named
    monkeypatch.setenv("CEDE_MODEL", "no/such")  # is for `serve`
    target = chosen_target(run.make_context("run", ["hello", "--model", "embedded", "--context", "512"]))
    assert target.local is not None
    assert (target.local.load.context, target.local.load.slots) == (512, 4)
    assert target.local.model_name == "cede-embedded"
