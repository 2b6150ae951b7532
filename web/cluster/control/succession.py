"""Order of the requests that take one another's place, whichever workers they have come to: which is the newest.

Each worker keeps one `Succession`, and tells the others of each request that comes to it.  A request gets a stamp one
above the newest that its worker has heard of (Lamport, "Time, Clocks, and the Ordering of Events in a Distributed
System", 1978), so one that comes after another was heard of is newer, whatever the clocks say; of two that came at the
same time, the one whose id is greater is.  A request that goes on at another worker keeps the stamp that it had.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

REMEMBERED = 4096
"""Names, and requests' stamps: those that were heard of last."""

Stamp: TypeAlias = tuple[int, str]
"""A number, and the request's id."""


class Succession:
    """Record of what one worker has heard."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, Stamp] = OrderedDict()
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()

    def comes(self, name: str, request_id: str) -> tuple[Stamp, Stamp]:
        """A request of that name comes to this worker; its stamp, and the newest one of the name."""
        newest, _ = self._newest.get(name, (0, ""))
        stamp = self._numbers.get((name, request_id), newest + 1), request_id
        return stamp, self.hears(name, stamp)

    def hears(self, name: str, stamp: Stamp) -> Stamp:
        """A request of that name has come somewhere; the newest of the name."""
        number, request_id = stamp
        newest = self._newest[name] = max(stamp, self._newest.get(name, stamp))
        self._newest.move_to_end(name)
        self._numbers[name, request_id] = number
        self._numbers.move_to_end((name, request_id))
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)
        if len(self._numbers) > REMEMBERED:
            self._numbers.popitem(last=False)
        return newest
