"""Starts that fail once the model is loaded: each says why in one line, whatever nursery it came out of."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.live.fork_server import ForkedServer
from web.storage.files import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Prepare = Callable[[Path], tuple[str, ...]]
    """Makes what is in the way, in a folder, and returns the flags that lead there."""


class ForkedWorker(ForkedServer):
    """Likewise for a worker."""

    arguments = ("worker", "--port", "0", "--log-format", "text", "--dtype", "float32", "--discovery", "file")


def below_a_file(flag: str) -> Prepare:
    def prepare(folder: Path) -> tuple[str, ...]:
        (folder / "file").write_text("")
        return flag, str(folder / "file" / "below")

    return prepare


def a_later_version(folder: Path) -> tuple[str, ...]:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    return "--state-dir", str(folder)


STATE: list[tuple[Prepare, str]] = [
    (below_a_file("--state-dir"), "cannot be used: Not a directory; name a folder that can be written to"),
    (a_later_version, "a later version of cede has written this folder"),
]
OTHERS: list[tuple[Prepare, str]] = [
    (below_a_file("--kv-dir"), "cannot be used for KV blocks: Not a directory"),
    (lambda _: ("--host", "203.0.113.7"), "cannot listen on 203.0.113.7"),
]


def refusal(server: ForkedServer) -> str:
    """The line with which a server ends that cannot start."""
    assert server.wait_exit() == 1
    # Dynamo's own threads say what they lose when the process ends, or do not.
    *before, line = (line for line in server.log().splitlines() if "dynamo_runtime" not in line)
    assert line.startswith("Error: ")
    assert all(" INFO " in other or " WARNING " in other for other in before), before
    return line


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.mark.parametrize(("prepare", "says"), STATE + OTHERS)
def test_what_is_in_the_way_of_a_server_is_said_in_a_line(
    tmp_path: Path, logs: Path, prepare: Prepare, says: str
) -> None:
    with ForkedServer(logs, *prepare(tmp_path)) as server:
        assert says in refusal(server)


@pytest.mark.parametrize(("prepare", "says"), [STATE[0], OTHERS[0]])
def test_and_of_a_worker(tmp_path: Path, logs: Path, prepare: Prepare, says: str) -> None:
    flags = (*prepare(tmp_path), "--discovery-dir", str(tmp_path / "discovery"))
    with ForkedWorker(logs, *flags) as worker:
        assert says in refusal(worker)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def test_and_what_another_has(tmp_path: Path, logs: Path, taken_port: int) -> None:
    """Its port; the folders of its stored answers and of its blocks are opened for as long as it runs."""
    state, blocks = str(tmp_path / "state"), str(tmp_path / "blocks")
    with ForkedServer(logs, "--state-dir", state, "--kv-dir", blocks) as first:
        first.wait_ready()
        for flags, says in (
            (("--state-dir", state), "does another server use it?"),
            (("--kv-dir", blocks), "is using this KV folder"),
            (("--port", str(taken_port)), f"port {taken_port}"),
        ):
            with ForkedServer(logs, *flags) as second:
                assert says in refusal(second)
