"""A server whose log is a pipe."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from tests.live.server import DEFAULTS, Server, command, environment


def fill(pipe: int) -> None:
    """Fill a pipe, by a descriptor that does not block, until it takes nothing."""
    for size in (4096, 1):  # no line fits, and then nothing at all
        try:
            while True:
                os.write(pipe, b"." * size)
        except BlockingIOError:
            pass


class PipedServer(Server):
    """A server whose log is a pipe, of which this process is the reader.

    Args:
        folder: where the pipe is to be.
        flags: of the command line.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        path = folder / "log"
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
        fill(self._filler)

    def log(self) -> str:
        """Return what has come out of the pipe so far."""
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
