"""From the sums of chunks to one vector."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

from runtime.step.prompt_rows.wanted import Pooling

if TYPE_CHECKING:
    from runtime.step.prompt_rows.wanted import RowsGiven


class PooledState:
    """The state of one prompt, chunk by chunk; on the host, in Python's own floats.

    Args:
        pooling: how the states become one.
    """

    def __init__(self, pooling: Pooling) -> None:
        self._pooling = pooling
        self._sum: list[float] = []
        self._rows = 0

    @property
    def rows(self) -> int:
        """Number of rows that it is made of."""
        return self._rows

    def add(self, given: RowsGiven) -> None:
        """Add what a chunk gave; a chunk that gave no state adds nothing."""
        if not given.state:
            return
        self._rows += given.rows
        state = given.state
        self._sum = [a + b for a, b in zip(self._sum, state, strict=True)] if self._sum else list(state)

    def vector(self) -> array[float]:
        """Return the pooled state, float32 `[hidden]`, not normalised."""
        rows = self._rows if self._pooling is Pooling.MEAN else 1
        return array("f", [value / rows for value in self._sum])


def normalised(vector: array[float]) -> array[float]:
    """Return the vector divided by its length (L2); one without length stays as it is."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    return array("f", [value / length for value in vector]) if length else vector
