"""The mask of one position, which somebody computes while the device runs the layers before it is needed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("cede.engine")


class Mask:
    """A `runtime.sampling.tokens.TokenMask` that is computed once, by whichever thread comes to it first.

    A thread that comes while another is at it waits for that one.  What cannot be computed allows any token, for the
    step is shared with others; whoever follows the output sees `error` and takes none.

    Args:
        compute: returns the bits.

    Attributes:
        error: why there are no bits; None while there is no reason.
    """

    def __init__(self, compute: Callable[[], bytes]) -> None:
        self.error: Exception | None = None
        self._compute: Callable[[], bytes] | None = compute
        self._bits: bytes | None = None
        self._lock = threading.Lock()

    def take(self) -> bytes | None:
        """Return the bits, as `TokenMask.take`."""
        with self._lock:
            if self._compute is not None:
                compute, self._compute = self._compute, None
                try:
                    self._bits = compute()
                except Exception as error:
                    logger.exception("the mask of a grammar could not be computed")
                    self.error = error
            return self._bits
