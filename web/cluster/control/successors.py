"""Requests that take the place of others, which may be at other workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import EndedByAnotherRequest
from web.cluster.control.questions import Question

if TYPE_CHECKING:
    import trio

    from web.cluster.control.desk import Desk
    from web.cluster.control.questions import Workers
    from web.cluster.control.succession import Succession


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
