"""The newest records, numbered from the first one on: one place for all viewers, so that another one costs nothing."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from web.observability.inspection.feed.records import AnyRecord


class Ring:
    """A bounded list whose oldest records give way.

    Attributes:
        end: the number that the next record gets.

    Args:
        capacity: how many records it holds.
    """

    def __init__(self, capacity: int) -> None:
        self._records: deque[AnyRecord] = deque(maxlen=capacity)
        self.end = 0

    def append(self, record: AnyRecord) -> None:
        """Add the newest record."""
        self._records.append(record)
        self.end += 1

    def read(self, position: int, most: int) -> tuple[list[AnyRecord], int]:
        """Return up to `most` records from `position` on, and how many before them are no longer there."""
        first = self.end - len(self._records)
        lost = max(0, first - position)
        begin = position + lost - first
        return list(islice(self._records, begin, begin + most)), lost
