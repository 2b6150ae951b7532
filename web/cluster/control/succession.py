"""Order of the requests that take one another's place, whichever workers they have come to: which is the newest.

Each worker keeps one `Succession`, and tells the others of each request that comes to it.  A request gets a stamp one
above the newest that its worker has heard of (Lamport, "Time, Clocks, and the Ordering of Events in a Distributed
System", 1978), so one that comes after another was heard of is newer, whatever the clocks say; of two that came at the
same time, the one whose id is greater is.  A request that goes on at another worker keeps the stamp that it had.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from runtime.errors import EndedByAnotherRequest
from web.cluster.control.questions import Question

if TYPE_CHECKING:
    import trio

    from web.cluster.control.desk import Desk
    from web.cluster.control.questions import Workers

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


class Successors:
    """Tells the other workers of those that come to this one.

    Args:
        succession: what this worker has heard.
        desk: of this worker, which hears of what others know.
        others: the other workers.
        nursery: Trio's, in which they are told.
    """

    def __init__(self, succession: Succession, desk: Desk, others: Workers, nursery: trio.Nursery) -> None:
        self._succession = succession
        self._desk = desk
        self._others = others
        self._nursery = nursery

    def comes(self, name: str, request_id: str) -> None:
        """A request of that name has come; it is begun at once, and the others are told meanwhile.

        Raises:
            EndedByAnotherRequest: a newer one has been heard of, as by one that goes on here after it was superseded
                elsewhere.
        """
        stamp, newest = self._succession.comes(name, request_id)
        if newest != stamp:
            raise EndedByAnotherRequest("The request was not begun: a newer request took its place.", code="superseded")
        self._nursery.start_soon(self._tell, name, stamp)

    async def _tell(self, name: str, stamp: tuple[int, str]) -> None:
        answers, _ = await self._others.ask(Question.SUPERSEDE, name=name, stamp=stamp)
        for number, request_id in answers.values():
            self._desk.hear(name, (number, request_id))
