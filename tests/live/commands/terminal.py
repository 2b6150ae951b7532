"""A program on a terminal of its own, which is seen as a person would see it.

Everything here is synchronous, and every wait is bounded by `PATIENCE`, which only a failing test uses up.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import signal
import subprocess
import termios
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyte

from tests.live.server import PATIENCE, command, environment

CTRL_C, CTRL_D, ENTER, UP = "\x03", "\x04", "\r", "\x1b[A"
SHOWS_CURSOR, HIDES_CURSOR = b"\x1b[?25h", b"\x1b[?25l"
ENTERS_SCREEN, LEAVES_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


class _Screen(pyte.HistoryScreen):
    """A screen that answers when it is asked where its cursor is."""

    def __init__(self, columns: int, rows: int, history: int, master: int) -> None:
        super().__init__(columns, rows, history=history)
        self._master = master

    def write_process_input(self, data: str) -> None:
        """Type an answer."""
        os.write(self._master, data.encode())


class Terminal:
    """Runs a program on a terminal; leaving the scope ends it.

    Args:
        arguments: of `cede`, or a whole command line if `program` is given.
        program: what to run instead of `cede`.
        extra: of the environment.
        rows, columns: of the terminal.

    Attributes:
        raw: all that the program has written.
        before: the terminal's settings before it began.
    """

    def __init__(
        self,
        *arguments: str,
        program: str | None = None,
        extra: Mapping[str, str] | None = None,
        rows: int = 40,
        columns: int = 160,
    ) -> None:
        self._master, self._slave = pty.openpty()
        termios.tcsetwinsize(self._slave, (rows, columns))
        self.before = termios.tcgetattr(self._slave)
        self._screen = _Screen(columns, rows, history=5000, master=self._master)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.process = subprocess.Popen(
            command(*arguments) if program is None else [program, *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env=environment() | {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""} | dict(extra or {}),
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End the program, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    # --- what is typed ------------------------------------------------------------------------------------------------

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def enter(self, line: str) -> None:
        """Type a line, and send it."""
        self.type(line)
        self.wait_for(line[-20:])
        self.type(ENTER)

    # --- what is seen -------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """Return what stands on the screen, and above it what has been scrolled out."""
        above = ["".join(row[x].data for x in range(self._screen.columns)) for row in self._screen.history.top]
        return [line.rstrip() for line in [*above, *self._screen.display]]

    @property
    def text(self) -> str:
        """The lines as one text, without the empty ones at the end."""
        return "\n".join(self.lines).rstrip()

    @property
    def shown(self) -> str:
        """Return what stands on the screen now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def is_as_before(self) -> bool:
        """Return whether the settings are what they were, the cursor is shown, and no other screen is."""
        return (
            termios.tcgetattr(self._slave) == self.before
            and self.raw.rfind(SHOWS_CURSOR) >= self.raw.rfind(HIDES_CURSOR)
            and self.raw.rfind(LEAVES_SCREEN) >= self.raw.rfind(ENTERS_SCREEN)
        )

    def wait_for(self, *texts: str, gone: str = "") -> str:
        """Wait until all of these texts are to be seen, and `gone` is not on the screen; returns the whole text."""
        self._wait(
            lambda: all(text in self.text for text in texts) and (not gone or gone not in self.shown),
            f"{texts} without {gone!r}",
        )
        return self.text

    def wait_exit(self) -> int:
        """The exit status, once the program has ended and all that it wrote was read."""
        self._wait(lambda: self.process.poll() is not None, "the end of the program")
        while self._read(0):
            pass
        return self.process.returncode

    def _wait(self, condition: Any, what: str) -> None:  # noqa: ANN401
        deadline = time.monotonic() + PATIENCE
        while not condition():
            ended = self.process.poll() is not None
            if not self._read(0.01) and ended and not condition():
                raise AssertionError(f"the program ended before {what}; the screen:\n{self.text}")
            assert time.monotonic() < deadline, f"waited in vain for {what}; the screen:\n{self.text}"

    def _read(self, seconds: float) -> bool:
        """Take what the program has written; whether there was anything."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            if not selector.select(seconds):
                return False
        data = os.read(self._master, 2**16)
        self.raw += data
        self._stream.feed(data)
        return True


def _take_terminal() -> None:
    """Make the standard input the terminal that the new session is controlled by, as a login does."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
