"""A worker's side of control: answers questions about its engine, and carries out what is asked of it.

The front door has no API keys, so what comes through it belongs to nobody, and so does what is asked here.  What an API
key asked at the worker's own address is that key's: it is not told of here, and cannot be ended.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import trio

from web.cluster.control.questions import Question
from web.observability.inspection.visible import ids_shown, shown, slots_shown

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.cluster.control.questions import Json
    from web.cluster.control.succession import Stamp, Succession


class FrontDoorSight:
    """Rights of whoever asks through a front door, which has no keys: to see what belongs to nobody."""

    def may_see(self, owner: str | None) -> bool:
        """Return whether it came through a front door."""
        return owner is None


class Desk:
    """Answers for one worker.

    Args:
        engine: its own.
        succession: what it has heard.
    """

    def __init__(self, engine: Engine, succession: Succession) -> None:
        self._engine = engine
        self._sight = FrontDoorSight()
        self._succession = succession

    async def answer(self, asked: Json) -> Any:  # noqa: ANN401  # JSON
        """Answer one question, in a task of Trio's.

        Raises:
            ValueError: nobody knows the question.
        """
        match Question(asked["question"]):
            case Question.REQUESTS:
                return [asdict(status) for status in shown(self._engine.requests(), self._sight)]
            case Question.RECEIPTS:
                return await self._receipts(asked["limit"], asked["request_ids"], asked["wait"])
            case Question.SLOTS:
                return [asdict(slot) for slot in slots_shown(self._engine, self._sight)]
            case Question.STATISTICS:
                return asdict(self._engine.statistics())
            case Question.GROUPS:
                return [asdict(group) for group in shown(self._engine.groups.live(), self._sight)]
            case Question.CANCEL:
                return self._lives(asked["id"]) and self._engine.cancel(asked["id"])
            case Question.END_GROUP:
                return self._engine.groups.end_group(None, asked["name"])
            case Question.SUPERSEDE:
                number, request_id = asked["stamp"]
                return self.hear(asked["name"], (number, request_id))

    def hear(self, name: str, stamp: Stamp) -> Stamp:
        """A request of that name has come somewhere.  Ends those here that are not the newest; returns the newest."""
        newest = self._succession.hears(name, stamp)
        self._engine.groups.end_superseded(None, name, by=newest[1])
        return newest

    def _lives(self, request_id: str) -> bool:
        return request_id in ids_shown(self._engine, self._sight)

    async def _receipts(self, limit: int, request_ids: list[str] | None, wait: float) -> list[Json]:
        with trio.move_on_after(wait):
            for request_id in filter(self._lives, request_ids or ()):
                await self._engine.wait_ended(request_id)
        found = shown(self._engine.receipts(), self._sight)
        if request_ids is not None:
            found = (receipt for receipt in found if receipt.request_id in request_ids)
        return [asdict(receipt) for receipt in islice(found, limit)]
