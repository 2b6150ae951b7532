"""Writing to a terminal or a pipe, and a terminal that is left as it was found."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
UNSHOWN = "\N{REPLACEMENT CHARACTER}"
_STEERING = {number: UNSHOWN for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\t"}
_STEERING[ord("\r")] = ""


def harmless(text: str) -> str:
    """A text without what could steer a terminal: what a model says can hold any character."""
    return text.translate(_STEERING)


async def write(descriptor: int, text: str) -> None:
    """Write all of a text.  A reader that is slow keeps nobody waiting but the caller, who can be cancelled.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    data = text.encode("utf-8", "replace")
    while data:
        written = await trio.to_thread.run_sync(os.write, descriptor, data, abandon_on_cancel=True)
        data = data[written:]


@contextmanager
def quiet_keys(descriptor: int, *, signals: bool) -> Iterator[None]:
    """Let keys that are pressed in the scope wait to be read one by one, without an echo; then all is as it was before.

    Args:
        descriptor: of a terminal.
        signals: whether Ctrl-C and its like are signals; else they wait like other keys.
    """
    import termios  # which Windows has not

    before = termios.tcgetattr(descriptor)
    flags = termios.tcgetattr(descriptor)
    flags[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    if signals:
        flags[3] |= termios.ISIG
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, flags)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def is_terminal(descriptor: int) -> bool:
    """Return whether a standard stream is one; a closed one is none."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def say_aside(line: str) -> None:
    """Write a line to the standard error, dimmed where that is a terminal."""
    shown = harmless(line)
    print(f"{DIM}{shown}{PLAIN}" if sys.stderr.isatty() else shown, file=sys.stderr, flush=True)
