"""What SIGTERM and SIGINT do to this process while it serves nobody, and how it ends at once.

As process 1 of a container a program has no default action: a signal that it has no handler for is lost.  So both have
one from the first moment, before torch is imported, until the last.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

logger = logging.getLogger("cede.web")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class EarlyStop:
    """Ends the process at the first signal: with status 0 while it loads, for that is a stop in good order.

    While there is something to wind down `web.server` takes the signals over.  One that comes after that, when the
    server has been told to stop already, ends the process as a second one does.
    """

    def __init__(self) -> None:
        self.has_served = False

    def install(self) -> None:
        """Take the signals; in the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.has_served:
            exit_now(128 + number)
        try:
            logger.info("%s: stopped before anything was served", signal.Signals(number).name)
        finally:  # writing may fail where the signal came in the middle of another line
            exit_now(0)


def exit_on_signals() -> None:
    """End the process at once, with status 128 + n, where there is never anything to wind down."""
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: exit_now(128 + number))


def exit_now(status: int) -> NoReturn:
    """End the process, whatever its threads are at."""
    logging.shutdown()
    os._exit(status)
