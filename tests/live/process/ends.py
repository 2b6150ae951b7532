"""States of a server when it is told to end, and how long it then takes: `python -m tests.live.process.ends`.

The program prints a line for each state: its name, the seconds from SIGTERM to the process's end, its status.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runtime.kv.blocks import Block
from runtime.kv.disk.blocks import DiskBlocks
from tests.live.fork_server import ForkedServer, run_forked
from tests.live.http_client import Http1, completion, prompt
from tests.live.process.piped import PipedServer, fill
from tests.live.server import COMPLETIONS, Server, wait_for
from web.process.hooks import ServerHooks
from web.storage import store
from web.storage.database import ObjectDatabase
from web.storage.objects import Item, StoredObject

GRACE = 2.0  # seconds
PIPE = "recorded"
HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: localh"
HALF_BODY = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
ANSWERS, KV = ".answers", ".kv"


# --- disks that do not answer -----------------------------------------------------------------------------------------


def _run(arguments: tuple[str, ...], environment: Mapping[str, str], out: Path, log: Path, gate: Path) -> None:
    answers, kv = (os.open(gate.with_suffix(kind), os.O_RDWR | os.O_CREAT, 0o600) for kind in (ANSWERS, KV))

    class Database(ObjectDatabase):
        """Waits for its disk at each change and at the end."""

        def put(self, stored: StoredObject, given: Sequence[Item] = (), made: Sequence[Item] = ()) -> bool:
            _wait(answers)
            return super().put(stored, given, made)

        def close(self) -> None:
            _wait(answers)
            super().close()

    class Blocks(DiskBlocks):
        """Waits for its disk at each write."""

        def write(self, block: Block, wanted: Callable[[], bool]) -> bool:
            _wait(kv)
            return super().write(block, wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "ObjectDatabase", Database)
        patch.setattr(ServerHooks, "disk_blocks", Blocks)
        run_forked(arguments, environment, out, log, gate)


def _wait(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_SH)
    fcntl.flock(file, fcntl.LOCK_UN)


class FreezableServer(ForkedServer):
    """A server whose disks for stored answers and for KV answer until they are frozen.

    Attributes:
        folder: of its files.
    """

    run: ClassVar[Callable[..., None]] = staticmethod(_run)

    def __init__(self, folder: Path, *flags: str) -> None:
        super().__init__(folder, *flags)
        self.folder = folder

    @contextmanager
    def frozen(self, disk: str) -> Iterator[None]:
        """While the scope lasts, a disk does not answer: that for `ANSWERS` or that for `KV`."""
        file = os.open(self._gate.with_suffix(disk), os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


# --- states -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """State that a server is in.

    Attributes:
        enter: brings a server there, and leaves on the stack what has to stay until it has ended.
        flags: of the server's command line; `{}` in them is a folder for its files.
        is_told: whether `enter` tells it to end.
        status: with which it ends.
        says: a part of a line in its log.
    """

    enter: Callable[[Any, ExitStack], object]
    flags: tuple[str, ...] = ()
    is_told: bool = False
    status: int = 0
    says: str = "stopped; requests served"


def _send(data: bytes, server: Server, stack: ExitStack) -> None:
    client = stack.enter_context(socket.create_connection(server.address))
    client.sendall(data)
    server.get("/health")


def _stream(server: Server, stack: ExitStack) -> Http1:
    client = stack.enter_context(Http1(server, completion(prompt(20), 4000)))
    client.read_tokens(2)
    return client


def _stall(server: Server, stack: ExitStack) -> None:
    client = stack.enter_context(Http1(server, completion(prompt(20), 250, logprobs=20), receive_buffer=4096))
    wait_for(lambda: server.requests().get(client.id, {}).get("states") == ["done"], "its generation to end")


def _prompt(server: ForkedServer, stack: ExitStack) -> None:
    with server.held():
        client = stack.enter_context(Http1(server, completion(prompt(3000), 4000)))
        server.wait_state(client.id, "prefill")
        server.signal(signal.SIGTERM)


def _queue(server: Server, stack: ExitStack) -> None:
    _stream(server, stack)
    client = stack.enter_context(Http1(server, completion(prompt(20, seed=1), 4000)))
    server.wait_state(client.id, "queued")


def _background(server: Server, stack: ExitStack) -> None:
    status, answer = server.ask("POST", "/v1/responses", {"input": "def", "background": True})
    assert status == 200, answer


def _frozen_state(server: FreezableServer, stack: ExitStack) -> None:
    with server.held():  # so that it has not ended yet
        _background(server, stack)
        stack.enter_context(server.frozen(ANSWERS))


def _frozen_kv(server: FreezableServer, stack: ExitStack) -> None:
    stack.enter_context(server.frozen(KV))
    server.ask("POST", COMPLETIONS, completion(prompt(300), 1, stream=False))


def _stalled_log(server: PipedServer, stack: ExitStack) -> None:
    server.stall()


def _recording(server: Server, stack: ExitStack) -> None:
    _stream(server, stack)


def _stalled_recording(server: FreezableServer, stack: ExitStack) -> None:
    _stream(server, stack)
    filler = os.open(server.folder / PIPE, os.O_WRONLY | os.O_NONBLOCK)
    stack.callback(os.close, filler)
    fill(filler)


STATES: dict[str, State] = {
    "idle": State(lambda server, stack: None),
    "half a header": State(partial(_send, HALF_HEADER)),
    "half a body": State(partial(_send, HALF_BODY)),
    "a stalled reader": State(_stall),
    "a stream": State(_stream),
    "a prompt in progress": State(_prompt, is_told=True),
    "a queue": State(_queue, ("--slots", "1")),
    "a run in the background": State(_background),
    "a frozen disk of stored answers": State(
        _frozen_state,
        ("--state-dir", "{}/state"),
        status=1,
        says="the disk of --state-dir does not answer, and the server ends without it: 1 changes may be lost",
    ),
    "a frozen disk of KV": State(_frozen_kv, ("--kv-dir", "{}/kv"), says="not all KV was written to disk in time"),
    "a stalled log": State(_stalled_log, says=""),
    "a recording": State(_recording, ("--record", "{}/recording")),
    "a recording to a stalled pipe": State(
        _stalled_recording, ("--record", f"{{}}/{PIPE}"), says="--record: the disk does not answer, and"
    ),
}


@contextmanager
def at(name: str, folder: Path, grace: float) -> Iterator[Server]:
    """A server that is in a state, and stays there if it can, while the scope lasts.

    Args:
        name: of the state.
        folder: for its files.
        grace: seconds.
    """
    state = STATES[name]
    flags: tuple[str, ...] = ("--grace", f"{grace:g}", "--log-level", "info", "--speculate", "off")
    flags += tuple(flag.format(folder) for flag in state.flags)
    make = PipedServer if name == "a stalled log" else FreezableServer
    with ExitStack() as stack:
        os.mkfifo(folder / PIPE)
        stack.callback(os.close, os.open(folder / PIPE, os.O_RDONLY | os.O_NONBLOCK))  # who reads nothing of it
        server = stack.enter_context(make(folder, *flags))
        server.wait_ready()
        state.enter(server, stack)
        yield server


def main() -> None:
    """Print the table."""
    for name, state in STATES.items():
        with tempfile.TemporaryDirectory() as folder, at(name, Path(folder), GRACE) as server:
            began = time.monotonic()
            if not state.is_told:
                server.signal(signal.SIGTERM)
            status = server.wait_exit()
            sys.stdout.write(f"{name:40} {time.monotonic() - began:6.2f} s   {status}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
