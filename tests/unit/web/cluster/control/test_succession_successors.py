"""A request that takes another's place, and the workers that are told."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.control import Control
from actors.core.hold import QueuePlace
from actors.core.receipts import CancelReason
from runtime.errors import EndedByAnotherRequest
from tests.fakes.engine import FakeEngine, as_engine
from web.cluster.control.desk import Desk
from web.cluster.control.questions import Question
from web.cluster.control.succession import Succession, Successors


class Others:
    """The other workers, who all know of one request."""

    def __init__(self, newest: list[Any] | None = None) -> None:
        self.told: list[tuple[Question, Any]] = []
        self._newest = newest

    async def ask(
        self,
        question: Question,
        worker: str | None = None,
        **about: Any,  # noqa: ANN401
    ) -> tuple[dict[str, Any], list[str]]:
        """Note it."""
        await trio.lowlevel.checkpoint()
        self.told.append((question, about))
        return {"a": self._newest or about["stamp"]}, ["b"]


async def test_the_others_are_told_of_each() -> None:
    others, succession = Others(), Succession()
    async with trio.open_nursery() as nursery:
        successors = Successors(succession, Desk(as_engine(FakeEngine()), succession), others, nursery)
        successors.comes("s", "r1")
        successors.comes("s", "r2")
    assert sorted(about["stamp"] for _, about in others.told) == [(1, "r1"), (2, "r2")]
    assert {(question, about["name"]) for question, about in others.told} == {(Question.SUPERSEDE, "s")}


async def test_one_whose_place_was_taken_elsewhere_is_not_begun() -> None:
    others, succession = Others(), Succession()
    succession.hears("s", (2, "newer"))
    succession.hears("s", (1, "r"))
    async with trio.open_nursery() as nursery:
        with pytest.raises(EndedByAnotherRequest):
            Successors(succession, Desk(as_engine(FakeEngine()), succession), others, nursery).comes("s", "r")
    assert others.told == []


async def test_one_that_was_begun_is_ended_when_another_worker_knows_a_newer_one() -> None:
    engine, succession, told = FakeEngine(), Succession(), list[CancelReason]()
    async with trio.open_nursery() as nursery:
        desk = Desk(as_engine(engine), succession)
        with engine.groups.joined("r", None, Control(supersede="s")) as member:
            member.admit([QueuePlace()], told.append)
            Successors(succession, desk, Others([7, "newer"]), nursery).comes("s", "r")
            await trio.testing.wait_all_tasks_blocked()
    assert told == [CancelReason.SUPERSEDED]
