"""A worker that tells of itself through Dynamo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import trio
import trio.testing

from actors.core.receipts import CancelReason
from tests.fakes.dynamo_context import Context
from tests.fakes.engine import FakeEngine, as_engine, completion
from tests.live.server import PATIENCE
from web.cluster.control.desk import FrontDoorSight
from web.cluster.control.feed.teller import SIGN_OF_LIFE, Teller
from web.cluster.guest import from_asyncio, run_as_guest
from web.observability.inspection.feed.feed import Feed


def run(test: Callable[[Teller, Feed, FakeEngine], Awaitable[None]], beat: float = PATIENCE) -> None:
    """Run a test of a teller, as a guest of asyncio."""

    async def main() -> None:
        engine = FakeEngine()
        feed = Feed(as_engine(engine))
        async with trio.open_nursery() as nursery:
            await test(Teller(feed, nursery, beat), feed, engine)

    run_as_guest(main)


async def take(pieces: AsyncIterator[Any]) -> Any:  # noqa: ANN401
    """The next piece; asyncio's."""
    return await anext(pieces, None)


def test_a_worker_tells_until_nobody_listens() -> None:
    async def test(teller: Teller, feed: Feed, engine: FakeEngine) -> None:
        context = await from_asyncio(context_made())
        told = teller.tell(context)
        first = await from_asyncio(take(told))
        assert (first["kind"], first["value"]["events"]) == ("snapshot", [])
        ring = feed.ring
        context.stop()
        assert await from_asyncio(take(told)) is None
        await trio.testing.wait_all_tasks_blocked()
        assert feed.ring is not ring, "its last viewer has left"

    run(test)


async def context_made() -> Context:
    await asyncio.sleep(0)
    return Context()


def test_a_worker_that_has_nothing_to_tell_says_that_it_lives_and_ends_with_its_feed() -> None:
    async def test(teller: Teller, feed: Feed, engine: FakeEngine) -> None:
        told = teller.tell(await from_asyncio(context_made()))
        await from_asyncio(take(told))
        assert await from_asyncio(take(told)) == SIGN_OF_LIFE
        teller.end()
        kinds = []
        while (piece := await from_asyncio(take(told))) is not None:
            kinds += [piece["kind"]] if piece else []
        assert kinds == ["frame"]

    run(test, beat=0.01)


def test_what_a_key_has_asked_is_not_told() -> None:
    async def test(teller: Teller, feed: Feed, engine: FakeEngine) -> None:
        request = replace(completion().request, id="theirs", owner="somebody")
        async with engine.open_request(request, disconnect_reason=lambda: CancelReason.OPERATOR):
            told = teller.tell(await from_asyncio(context_made()))
            first = await from_asyncio(take(told))
        assert first["value"]["state"]["requests"] == []
        await from_asyncio(told.aclose())

    run(test)
    assert (FrontDoorSight().may_see(None), FrontDoorSight().may_see("somebody")) == (True, False)
