"""The backend over a scripted engine, with a context such as Dynamo's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from actors.core.generation import Event, Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import CedeError, QueueFull, RequestError, ShuttingDown, StepFailed
from tests.fakes.dynamo_context import Context
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, finished, say, token
from tests.live.server import PATIENCE
from web.cluster import backend, handoff
from web.cluster.backend import Backend, split_error
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.handoff import Handoff
from web.cluster.translation.chunks import SIGN_OF_LIFE

ASKED = {"token_ids": [5, 6], "stop_conditions": {"max_tokens": 4}, "sampling_options": {"temperature": 0}}


class Told(Exception):
    """In place of Dynamo's exceptions."""


@pytest.fixture(autouse=True)
def no_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(error: CedeError) -> Exception:
        return Told(type(error).__name__, str(error))

    monkeypatch.setattr(backend, "dynamo_error", told)


async def collect(over: Backend, context: Context, asked: dict[str, Any] = ASKED) -> list[dict[str, Any]]:
    return [chunk async for chunk in over.generate(asked, context)]


def run(engine: FakeEngine, test: Callable[[Backend], Awaitable[None]], beat: float = 60.0) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(Backend(as_engine(engine), nursery, lambda name, request_id: None, beat))

    run_as_guest(main)


def test_the_events_of_a_request_are_its_chunks() -> None:
    async def test(over: Backend) -> None:
        chunks = await from_asyncio(collect(over, Context()))
        assert [token for chunk in chunks for token in chunk["token_ids"]] == [97, 98]
        assert chunks[-1]["finish_reason"] == "stop"
        request = await engine.next_request()
        assert (request.id, request.asked.prompts, request.cancels) == ("r1", ((5, 6),), [])

    engine = FakeEngine(say("a", "b"))
    run(engine, test)


def test_an_output_with_penalties_is_marked_and_goes_on_behind_its_mark() -> None:
    asked = ASKED | {"sampling_options": {"temperature": 0, "presence_penalty": 0.5}}
    size = as_engine(FakeEngine()).model.vocab_size

    async def test(over: Backend) -> None:
        first, *_ = await from_asyncio(collect(over, Context(), asked))
        assert first["token_ids"] == [97 + size]
        replay = asked | {"token_ids": [5, 6, 97 + size]}
        first, *_ = await from_asyncio(collect(over, Context(), replay))
        assert first["token_ids"] == [97]
        before, after = await engine.next_request(), await engine.next_request()
        assert (before.asked.prompts, before.asked.emitted) == (((5, 6),), 0)
        assert (after.asked.prompts, after.asked.emitted) == (((5, 6, 97),), 1)

    engine = FakeEngine(say("a"))
    run(engine, test)


def test_a_hang_up_cancels_the_request_whatever_is_waited_for() -> None:
    async def test(over: Backend) -> None:
        context = Context()
        collecting = asyncio.ensure_future(collect(over, context))
        with trio.fail_after(PATIENCE):
            await begun.wait()
            context.stop()
            assert await from_asyncio(collecting) == []
            request = await engine.next_request()
            await request.left.wait()
            assert request.hung_up is CancelReason.DISCONNECT

    async def silent(request: FakeRequest) -> None:
        begun.set()
        await trio.sleep_forever()

    begun = trio.Event()
    engine = FakeEngine(silent)
    run(engine, test)


def test_a_generator_that_is_closed_cancels_the_request() -> None:
    async def test(over: Backend) -> None:
        async def read_one() -> None:
            chunks = over.generate(ASKED, Context())
            await anext(chunks)
            await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator

        with trio.fail_after(PATIENCE):
            await from_asyncio(read_one())
            request = await engine.next_request()
            await request.left.wait()
            assert request.hung_up is CancelReason.DISCONNECT

    async def endless(request: FakeRequest) -> None:
        request.emit(token("a"))
        await trio.sleep_forever()

    engine = FakeEngine(endless)
    run(engine, test)


def test_a_stream_on_which_nothing_comes_says_that_it_lives() -> None:
    async def test(over: Backend) -> None:
        async def read_three() -> list[dict[str, Any]]:
            chunks = over.generate(ASKED, Context())
            try:
                return [await anext(chunks) for _ in range(3)]
            finally:
                await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator

        with trio.fail_after(PATIENCE):
            assert await from_asyncio(read_three()) == [SIGN_OF_LIFE] * 3

    async def silent(request: FakeRequest) -> None:
        await trio.sleep_forever()

    run(FakeEngine(silent), test, beat=0.0)


def test_a_stream_says_soon_after_its_beginning_that_it_lives_and_ever_less_often() -> None:
    asked_for: list[float] = []

    class Watched(Handoff[Any]):
        async def take(self, patience: float) -> Any:  # noqa: ANN401
            asked_for.append(patience)
            if len(asked_for) < 2:
                return await super().take(patience)
            return None

    async def test(over: Backend) -> None:
        async def read_four() -> None:
            chunks = over.generate(ASKED, Context())
            try:
                for _ in range(4):
                    assert await anext(chunks) == SIGN_OF_LIFE
            finally:
                await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator

        with trio.fail_after(PATIENCE):
            await from_asyncio(read_four())

    async def silent(request: FakeRequest) -> None:
        await trio.sleep_forever()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handoff, "Handoff", Watched)
        run(FakeEngine(silent), test, beat=0.05)
    assert asked_for == [0.05, 0.01, 0.02, 0.04, 0.05]


def test_what_is_wrong_with_a_request_is_told() -> None:
    async def test(over: Backend) -> None:
        with pytest.raises(Told) as caught:
            await from_asyncio(collect(over, Context(), ASKED | {"token_ids": []}))
        assert caught.value.args[0] == "RequestError"
        assert engine.openings == 0

    engine = FakeEngine(say("a"))
    run(engine, test)


def test_one_that_takes_anothers_place_is_told_of_before_it_is_begun() -> None:
    told: list[tuple[str, str, int]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            over = Backend(
                as_engine(engine), nursery, lambda name, request_id: told.append((name, request_id, engine.openings))
            )
            await from_asyncio(collect(over, Context()))
            await from_asyncio(collect(over, Context("r2"), ASKED | {"annotations": ['cede:{"supersede": "s"}']}))

    engine = FakeEngine(say("a"))
    run_as_guest(main)
    assert told == [("s", "r2", 1)]


def test_an_engine_that_refuses_is_told_of() -> None:
    async def test(over: Backend) -> None:
        with pytest.raises(Told, match="QueueFull"):
            await from_asyncio(collect(over, Context()))

    engine = FakeEngine(say("a"))
    engine.refusal = QueueFull("full")
    run(engine, test)


def test_a_generation_that_fails_ends_the_request_with_its_error_behind_its_tokens() -> None:
    events: list[Event] = [token("a"), Failed(0, StepFailed("x")), token("b")]
    told, error = split_error(events)
    assert told == [token("a")]
    assert isinstance(error, StepFailed)


def test_what_a_shutdown_cancels_goes_on_elsewhere_and_what_else_is_cancelled_is_told() -> None:
    moved = replace(finished(reason=FinishReason.CANCELLED), cancelled=CancelReason.SHUTDOWN)
    assert isinstance(split_error([moved])[1], ShuttingDown)
    ended = replace(moved, cancelled=CancelReason.OPERATOR)
    assert split_error([ended]) == ([ended], None)


def test_a_request_error_is_no_cancel() -> None:
    assert split_error([Failed(0, RequestError("x"))])[0] == []


def test_a_request_that_comes_again_waits_until_the_earlier_attempt_has_heard_that_it_is_not_wanted() -> None:
    async def test(over: Backend) -> None:
        earlier = Context()
        first = asyncio.ensure_future(collect(over, earlier))
        with trio.fail_after(PATIENCE):
            request = await engine.next_request()
            second = asyncio.ensure_future(collect(over, Context()))
            await trio.testing.wait_all_tasks_blocked()
            assert engine.openings == 1
            earlier.stop()
            await request.left.wait()
            assert await from_asyncio(first) == []
            assert (await from_asyncio(second))[-1]["finish_reason"] == "stop"

    async def silent_at_first(request: FakeRequest) -> None:
        if engine.openings == 1:
            await trio.sleep_forever()
        request.emit(*say("a"))

    engine = FakeEngine(silent_at_first)
    run(engine, test)
