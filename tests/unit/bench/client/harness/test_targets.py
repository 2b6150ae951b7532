"""Targets: how they are written, where they may be, and how they begin and end."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.client.harness.dialect import Dialect
from bench.client.harness.targets import Target, TargetError, check_loopback, open_target, parse_target, read_targets
from tests.live.server import ROOT
from tests.unit.bench.client.harness.open_servers import free_port


def test_a_target_from_the_command_line() -> None:
    assert parse_target("a=http://127.0.0.1:1/") == Target("a", "http://127.0.0.1:1")
    for wrong in ("http://127.0.0.1:1", "=x", "a="):
        with pytest.raises(TargetError, match="NAME=URL"):
            parse_target(wrong)


def test_targets_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(
        """
        [one]
        url = "http://127.0.0.1:1"
        about = "the one"
        command = ["serve", "it"]
        ready = "/health"
        environment = { THREADS = "2" }
        token_ids = [5, 9]
        fields = { top_k = 1 }
        without_speculation = { drafts = 0 }
        headers = { Authorization = "Bearer sesame" }
        [two]
        url = "http://127.0.0.1:2"
        endpoint = "chat"
        model = "m"
        """
    )
    one, two = read_targets(path)
    assert one == Target(
        "one",
        "http://127.0.0.1:1",
        about="the one",
        command=("serve", "it"),
        ready="/health",
        environment={"THREADS": "2"},
        dialect=Dialect(
            model="",
            token_ids=range(5, 9),
            fields={"temperature": 0, "top_k": 1},
            without_speculation={"drafts": 0},
            headers={"Authorization": "Bearer sesame"},
        ),
    )
    assert two.dialect == Dialect(model="m", endpoint="chat", token_ids=None)


def test_the_readme_s_targets_are_targets(tmp_path: Path) -> None:
    readme = (ROOT / "bench" / "README.md").read_text()
    path = tmp_path / "targets.toml"
    path.write_text("\n".join(re.findall("```toml\n(.*?)```", readme, re.DOTALL)))
    assert [target.name for target in read_targets(path)] == ["cede", "llama", "vllm", "mlx", "ollama"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "table with a url"),
        ("[a]\nabout = 'no url'", "table with a url"),
        ("[a]\nurl = 'http://127.0.0.1'\nreadyness = '/'", "unknown keys: readyness"),
        ("[a]\nurl = 'http://127.0.0.1'\nendpoint = 'responses'", "completions"),
        ("[a]\nurl = 'http://127.0.0.1'\nendpoint = 'chat'\nprompts = 'ids'", "no token ids"),
        ("[a", "targets.toml"),
    ],
)
def test_a_file_with_a_fault(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(text)
    with pytest.raises(TargetError, match=complaint):
        read_targets(path)


@pytest.mark.parametrize("host", ["127.0.0.1:80", "127.9.9.9", "[::1]:80", "localhost:80"])
def test_loopback_is_ours(host: str) -> None:
    """It raises TargetError for any other."""
    check_loopback(Target("a", f"http://{host}"))


@pytest.mark.parametrize("host", ["192.0.2.1:80", "10.0.0.1", "[2001:db8::1]:80", "0.0.0.0"])
def test_other_machines_are_not(host: str) -> None:
    with pytest.raises(TargetError, match="--allow-remote"):
        check_loopback(Target("a", f"http://{host}"))


@pytest.fixture
def url() -> Iterator[str]:
    with free_port() as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_target_that_ends_before_it_is_ready(tmp_path: Path, url: str) -> None:
    target = Target("a", url, command=(sys.executable, "-c", "print('oh'); exit(3)"))
    with pytest.RaisesGroup(TargetError, flatten_subgroups=True, allow_unwrapped=True) as caught:
        async with open_target(target, tmp_path / "a.log"):
            pass
    assert "status 3" in str(caught.value)
    assert (tmp_path / "a.log").read_text() == "oh\n"


async def test_a_target_that_is_not_there(tmp_path: Path, url: str) -> None:
    with pytest.raises(TargetError, match="does not answer"):
        async with open_target(Target("a", url), tmp_path / "a.log"):
            pass
    with pytest.raises(TargetError, match="does not start"):
        async with open_target(Target("a", url, command=("/no/such/program",)), tmp_path / "a.log"):
            pass
