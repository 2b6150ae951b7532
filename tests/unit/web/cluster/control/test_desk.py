"""Answers of one worker, and what it does."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from typing import Any

import pytest
import trio

from actors.control import Control
from actors.core.hold import QueuePlace
from actors.core.receipts import CancelReason
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, completion
from web.cluster.control.desk import Desk
from web.cluster.control.questions import Question, asked
from web.cluster.control.succession import Succession


async def ask(engine: FakeEngine, question: Question, **about: Any) -> Any:  # noqa: ANN401
    return await Desk(as_engine(engine), Succession()).answer(asked(question, about))


async def opened(stack: AsyncExitStack, engine: FakeEngine, name: str, owner: str | None = None) -> FakeRequest:
    request = replace(completion().request, id=name, owner=owner)
    return await stack.enter_async_context(
        engine.open_request(request, disconnect_reason=lambda: CancelReason.OPERATOR)
    )


async def test_what_a_key_has_asked_is_neither_told_of_nor_ended() -> None:
    engine = FakeEngine()
    async with AsyncExitStack() as stack:
        await opened(stack, engine, "ours")
        theirs = await opened(stack, engine, "theirs", "somebody")
        engine.in_slot = "theirs"
        assert [one["id"] for one in await ask(engine, Question.REQUESTS)] == ["ours"]
        assert [slot["request_id"] for slot in await ask(engine, Question.SLOTS)] == [None, None]
        assert await ask(engine, Question.CANCEL, id="theirs") is False
        assert theirs.cancels == []
        engine.in_slot = "ours"
        assert [slot["request_id"] for slot in await ask(engine, Question.SLOTS)] == ["ours", None]


async def test_a_request_is_ended_if_it_lives() -> None:
    engine = FakeEngine()
    async with AsyncExitStack() as stack:
        request = await opened(stack, engine, "r")
        assert await ask(engine, Question.CANCEL, id="r1") is False
        assert await ask(engine, Question.CANCEL, id="r") is True
        assert request.cancels == [CancelReason.OPERATOR]


async def test_receipts_are_waited_for(autojump_clock: trio.abc.Clock) -> None:
    engine = FakeEngine()
    about = {"limit": 10, "request_ids": ["cmpl-r", "r"], "wait": 5}
    async with AsyncExitStack() as stack:
        await opened(stack, engine, "r")
        assert await ask(engine, Question.RECEIPTS, **about) == []
        assert trio.current_time() >= 5
    began = trio.current_time()
    assert await ask(engine, Question.RECEIPTS, **about) == []
    assert trio.current_time() == began


async def test_groups_are_told_of_and_ended_but_not_those_of_a_key() -> None:
    engine, told = FakeEngine(), list[CancelReason]()
    with ExitStack() as stack:
        for name, owner in (("r1", None), ("r2", "somebody")):
            member = stack.enter_context(engine.groups.joined(name, owner, Control(group="g")))
            member.admit([QueuePlace()], told.append)
        (group,) = await ask(engine, Question.GROUPS)
        assert (group["name"], list(group["requests"])) == ("g", ["r1"])
        assert await ask(engine, Question.END_GROUP, name="g") == ["r1"]
        assert told == [CancelReason.GROUP]


async def test_one_that_is_superseded_elsewhere_is_ended_and_the_newest_is_told() -> None:
    engine, told = FakeEngine(), list[CancelReason]()
    desk = Desk(as_engine(engine), Succession())
    with engine.groups.joined("here", None, Control(supersede="s")) as member:
        member.admit([QueuePlace()], told.append)
        assert await desk.answer(asked(Question.SUPERSEDE, {"name": "s", "stamp": [3, "here"]})) == (3, "here")
        assert await desk.answer(asked(Question.SUPERSEDE, {"name": "s", "stamp": [2, "old"]})) == (3, "here")
        assert told == []
        assert await desk.answer(asked(Question.SUPERSEDE, {"name": "s", "stamp": [4, "new"]})) == (4, "new")
        assert told == [CancelReason.SUPERSEDED]


async def test_statistics_are_the_engines() -> None:
    assert (await ask(FakeEngine(), Question.STATISTICS))["manager"]["slots"] == 4


async def test_nobody_knows_other_questions() -> None:
    with pytest.raises(ValueError, match="nothing"):
        await Desk(as_engine(FakeEngine()), Succession()).answer({"question": "nothing"})
