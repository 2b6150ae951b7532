"""SIGTERM and SIGINT while the process serves nobody, and the way to end at once.

Process 1 of a container has no default actions: a signal without a handler is lost.  So both signals have a handler
from the first moment, before torch is imported, until the last.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

logger = logging.getLogger("cede.web")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
UNWINDING_SECONDS = 2.0  # within how long interrupted work must have put away what it had begun


class Interrupted(BaseException):
    """Raised in the main thread by a signal, where there is something to put away before the process ends."""


class EarlyStop:
    """Ends the process at the first signal.  While the process loads this is an orderly stop, so the status is 0.

    While there is something to wind down, `web.serving.server` handles the signals.  A signal that comes later, when
    the server has been told to stop already, ends the process with status 128 + n, as a second signal does.

    Attributes:
        has_served: set once the server has been told to stop.
    """

    def __init__(self) -> None:
        self.has_served = False

    def install(self) -> None:
        """Install the handlers.  To be called in the main thread."""
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: self.end(number))

    def end(self, number: int) -> NoReturn:
        """End the process as a signal of this number does."""
        if self.has_served:
            exit_now(128 + number)
        try:
            logger.info("%s: stopped before anything was served", signal.Signals(number).name)
        finally:  # whatever becomes of the line: the signal may have come in the middle of another
            exit_now(0)


def exit_on_signals() -> None:
    """Let signals end the process at once, with status 128 + n, as there is nothing to wind down."""
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: exit_now(128 + number))


@contextmanager
def unwound_by_signals(end: Callable[[int], NoReturn]) -> Iterator[None]:
    """Let a signal end the work in the scope by an exception, and then the process.

    So the work's own scopes put away what it has begun.  A second signal ends the process at once, and so does a
    clean-up that takes more than `UNWINDING_SECONDS`.  To be entered in the main thread.

    Args:
        end: is given the signal's number and ends the process.
    """

    def unwind(number: int, frame: FrameType | None) -> None:
        for later in SIGNALS:
            signal.signal(later, lambda number, frame: end(number))
        impatient = threading.Timer(UNWINDING_SECONDS, end, (number,))
        impatient.daemon = True
        impatient.start()
        received.append(number)
        raise Interrupted

    received: list[int] = []
    before = {number: signal.signal(number, unwind) for number in SIGNALS}
    try:
        yield
    finally:
        if received:  # whatever became of the exception
            end(received[0])
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_now(status: int) -> NoReturn:
    """End the process at once, whatever its threads are doing."""
    logging.shutdown()
    os._exit(status)
