"""The mask of one position: computed by whoever needs it, or before that by a thread beside the device."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("cede.engine")

SLOW_SECONDS = 100e-6
"""A mask that takes as long as this is worth a thread: to hand it over and take it back costs half of it."""


class Mask:
    """A `runtime.sampling.tokens.TokenMask` that is computed once, by whichever thread comes to it first.

    A thread that comes while another is at it waits for that one.  What cannot be computed allows any token, for the
    step is shared with others; whoever follows the output sees `error` and takes none.

    Args:
        compute: returns the bits; None where any token may follow.
        expected: how long it is likely to take.

    Attributes:
        error: why there are no bits; None while there is no reason.
        expected: the same.
        seconds: how long it took; None before it was computed.
    """

    __slots__ = ("__weakref__", "_bits", "_compute", "_lock", "error", "expected", "seconds")

    def __init__(self, compute: Callable[[], bytes | None], expected: float = SLOW_SECONDS) -> None:
        self.error: Exception | None = None
        self.expected = expected
        self.seconds: float | None = None
        self._compute: Callable[[], bytes | None] | None = compute
        self._bits: bytes | None = None
        self._lock = threading.Lock()

    def take(self) -> bytes | None:
        """Return the bits, as `TokenMask.take`."""
        with self._lock:
            if self._compute is not None:
                compute, self._compute = self._compute, None
                began = time.perf_counter()
                try:
                    self._bits = compute()
                except Exception as error:
                    logger.exception("the mask of a grammar could not be computed")
                    self.error = error
                self.seconds = time.perf_counter() - began
            return self._bits
