"""The thread that computes masks while the device runs its layers."""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Protocol

from runtime.grammar.masks import SLOW_SECONDS

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from runtime.grammar.masks import Mask


END_SECONDS = 1.0  # that the end waits for the mask in hand

logger = logging.getLogger("cede.engine")


class MaskComputer(Protocol):
    """Computes masks, and may begin before they are needed, for it is told of them."""

    def submit(self, mask: Mask) -> None:
        """Take a mask that somebody will need soon; returns without an error, whatever becomes of the mask."""


class InlineMasks:
    """Computes each mask at once, where it is submitted: for tests, in which nothing may depend on threads."""

    def submit(self, mask: Mask) -> None:
        """Compute the mask."""
        mask.take()


class MaskWorker:
    """Computes slow masks in the order of their submission, on a thread of its own.  As a scope: the thread's life.

    The library lets go of the interpreter while it computes.  A mask that this thread has not begun when the device
    needs it is computed there, so nobody depends on the thread: without it there are only fewer hands.  A mask that is
    not expected to be slow is left to the device's thread at once: it takes less than to wake another.
    """

    def __init__(self) -> None:
        self._masks: queue.SimpleQueue[Mask | None] = queue.SimpleQueue()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="cede-masks", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End the thread, as `end`, and wait a moment for that."""
        self.end()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            logger.warning("a grammar's mask is still being computed, and the process ends without it")

    def end(self) -> None:
        """Let the thread end after the mask that it is at: the requests are over, and nobody needs the others."""
        self._ending = True
        self._masks.put(None)

    def submit(self, mask: Mask) -> None:
        """Have a mask computed soon, if that is likely to take long."""
        if mask.expected >= SLOW_SECONDS:
            self._masks.put(mask)

    def _work(self) -> None:
        while (mask := self._masks.get()) is not None and not self._ending:
            mask.take()
            del mask  # or the last output's matcher would live until the next one
