"""A log whose reader stalls, as a paused terminal does: it costs lines of the log, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Self

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, DEFAULTS, Server, command, environment, wait_for

if TYPE_CHECKING:
    from pathlib import Path


class PipedServer(Server):
    """A server whose log is a pipe, of which this process is the reader.

    Args:
        path: where the pipe is to be.
        flags: of the command line.
    """

    def __init__(self, path: Path, *flags: str) -> None:
        os.mkfifo(path)
        self._log = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8")
        self._filler = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # which shares no flags with the server's end
        with path.open("wb", buffering=0) as theirs:
            self.process = subprocess.Popen(
                command("serve", *DEFAULTS, *flags),
                stdout=subprocess.PIPE,
                stderr=theirs,
                text=True,
                env=environment(),
            )
        self._read = b""
        self._url = ""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def stall(self) -> None:
        """Let there be no room in the pipe, from now on."""
        for size in (4096, 1):  # no line fits, and then nothing at all
            try:
                while True:
                    os.write(self._filler, b"." * size)
            except BlockingIOError:
                pass

    def log(self) -> str:
        """What has come out of the pipe so far."""
        try:
            while data := os.read(self._log.fileno(), 2**16):
                self._read += data
        except BlockingIOError:
            pass
        return self._read.decode()

    def end(self) -> None:
        """End the process, and close the pipe."""
        try:
            super().end()
        finally:
            os.close(self._filler)


def test_a_stalled_reader_of_the_log_holds_up_nobody(tmp_path: Path) -> None:
    with PipedServer(tmp_path / "log") as server:
        server.wait_ready()
        with Http1(server, completion(prompt(20), 4000)) as stream:
            stream.read_tokens(1)
            server.stall()
            for _ in range(3):  # each is a line
                status, _ = server.ask("POST", COMPLETIONS, {"prompt": "def", "max_tokens": 1})
                assert status == 200
            assert server.ask("GET", "/health")[0] == 200
            stream.read_tokens(len(stream.tokens) + 20)
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0


def test_lines_that_a_stalled_reader_left_come_in_order_when_it_reads_again(tmp_path: Path) -> None:
    with PipedServer(tmp_path / "log") as server:
        server.wait_ready()
        server.stall()
        ids = [server.ask("POST", COMPLETIONS, {"prompt": "def", "max_tokens": 1})[1]["id"] for _ in range(3)]
        wait_for(lambda: ids[-1] in server.log(), "the last line")
        log = server.log()
        assert sorted(ids, key=log.index) == ids
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        assert "stopped; requests served: 3" in server.log().splitlines()[-1]
