"""`cede keys`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from web.commands.keys import keys
from web.process.access.key_file import read_keys


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--api-key-file", str(path)])


def test_add_list_and_remove(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    limits = ["--requests", "4", "--queue-share", "0.5", "--tokens-per-minute", "600"]
    added = run(path, "add", "alice", *limits)
    assert added.output.startswith("sk-cede-")
    assert read_keys([added.output], None)[0].digest == read_keys([], path)[0].digest
    assert run(path, "add", "root", "--admin").exit_code == 0
    assert run(path, "list").output == "alice  requests=4  queue-share=0.5  tokens-per-minute=600\nroot  admin\n"
    assert run(path, "remove", "alice").output == "1 left\n"
    assert "none is left" in run(path, "remove", "root").output
    assert run(path, "list").output == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "a b"), "a key's name has"),
        (("remove", "bob"), "there is no key named 'bob'"),
        (("add", "bob", "--requests", "0"), "0 is not in the range"),
        (("add", "bob", "--queue-share", "2"), "is not in the range"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    path = tmp_path / "keys"
    run(path, "add", "alice")
    result = run(path, *arguments)
    assert said in result.output
    assert result.exit_code != 0


def test_a_file_that_is_not_there_is_made_by_add_alone(tmp_path: Path) -> None:
    assert "does not exist" in run(tmp_path / "keys", "list").output
    assert "does not exist" in run(tmp_path / "keys", "remove", "a").output
    assert run(tmp_path / "keys", "add", "a").exit_code == 0
