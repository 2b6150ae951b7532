"""SIGTERM and SIGINT while the process serves nobody, and the way to end at once.

Process 1 of a container has no default actions: a signal without a handler is lost.  So both signals have a handler
from the first moment, before torch is imported, until the last.
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
    """Ends the process at the first signal.  While the process loads this is an orderly stop, so the status is 0.

    While there is something to wind down, `web.server` handles the signals.  A signal that comes later, when the server
    has been told to stop already, ends the process with status 128 + n, as a second signal does.

    Attributes:
        has_served: set once the server has been told to stop.
    """

    def __init__(self) -> None:
        self.has_served = False

    def install(self) -> None:
        """Install the handlers.  To be called in the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.has_served:
            exit_now(128 + number)
        try:
            logger.info("%s: stopped before anything was served", signal.Signals(number).name)
        finally:  # logging fails if the signal came in the middle of another line
            exit_now(0)


def exit_on_signals() -> None:
    """Let signals end the process at once, with status 128 + n, as there is nothing to wind down."""
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: exit_now(128 + number))


def exit_now(status: int) -> NoReturn:
    """End the process at once, whatever its threads are doing."""
    logging.shutdown()
    os._exit(status)
