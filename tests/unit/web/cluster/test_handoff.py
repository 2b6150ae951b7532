"""One piece at a time, from Trio to asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from tests.fakes.dynamo_binding import taken_elsewhere
from tests.fakes.dynamo_context import Context
from tests.live.server import PATIENCE
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.handoff import Closed, Handoff, handing_over


def test_a_piece_waits_until_it_is_wanted() -> None:
    put: list[int] = []

    async def main() -> None:
        pieces: Handoff[int] = Handoff()

        async def produce() -> None:
            for piece in range(3):
                await pieces.put(piece)
                put.append(piece)
            pieces.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await trio.testing.wait_all_tasks_blocked()
            assert put == []
            assert await from_asyncio(pieces.take(PATIENCE)) == 0
            await trio.testing.wait_all_tasks_blocked()
            assert put == [0]
            assert await from_asyncio(pieces.take(PATIENCE)) == 1
            assert await from_asyncio(pieces.take(PATIENCE)) == 2
            with pytest.raises(Closed):
                await from_asyncio(pieces.take(PATIENCE))

    run_as_guest(main)


def test_who_waits_too_long_gets_nothing_and_loses_nothing() -> None:
    async def main() -> None:
        pieces: Handoff[str] = Handoff()
        assert await from_asyncio(pieces.take(0)) is None
        await pieces.put("a")
        assert await from_asyncio(pieces.take(PATIENCE)) == "a"

    run_as_guest(main)


def test_whoever_waits_is_told_of_the_end() -> None:
    async def main() -> None:
        pieces: Handoff[str] = Handoff()
        waiting = asyncio.ensure_future(pieces.take(PATIENCE))
        await trio.testing.wait_all_tasks_blocked()
        pieces.close()
        with pytest.raises(Closed):
            await from_asyncio(waiting)

    run_as_guest(main)


def test_a_piece_that_comes_behind_the_end_is_dropped() -> None:
    async def main() -> None:
        pieces: Handoff[str] = Handoff()
        waiting = asyncio.ensure_future(pieces.take(PATIENCE))
        await trio.testing.wait_all_tasks_blocked()
        pieces.close()
        with pytest.raises(Closed):
            await from_asyncio(waiting)
        await pieces.put("a")  # it was wanted once

    run_as_guest(main)


def test_what_fails_while_it_is_cancelled_costs_nobody_else_anything(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Handoff[str]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("too late")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            context = Context()

            async def take() -> None:
                with handing_over(nursery, context, fail) as pieces:
                    await pieces.take(PATIENCE)

            waiting = asyncio.ensure_future(take())
            await trio.testing.wait_all_tasks_blocked()
            context.stop()
            with pytest.raises(Closed):
                await from_asyncio(waiting)

    run_as_guest(main)
    assert "asked for as r1 failed" in caplog.text
    assert "too late" in caplog.text


class Numbers:
    """Three of them, then nothing for long; waited for in a scope of its own, as a request has.

    Attributes:
        over: lets the task end by itself.
        ended: the task has.
        ended_in: the threads in which its generators have.
    """

    def __init__(self) -> None:
        self.over = trio.Event()
        self.ended = trio.Event()
        self.ended_in: list[threading.Thread] = []

    async def run(self, pieces: Handoff[int]) -> None:
        """Trio's task."""
        try:
            with trio.CancelScope():
                for number in range(3):
                    await pieces.put(number)
                await self.over.wait()
        finally:
            self.ended.set()

    async def generate(self, nursery: trio.Nursery) -> AsyncIterator[int | None]:
        """Yield what Dynamo drives."""
        try:
            with handing_over(nursery, Context(), self.run) as pieces:
                while True:
                    yield await pieces.take(PATIENCE)
        finally:
            self.ended_in.append(threading.current_thread())


def test_a_generator_that_is_dropped_in_another_thread_ends_its_task() -> None:
    numbers, here = Numbers(), threading.current_thread()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            assert await taken_elsewhere(lambda: numbers.generate(nursery), 3) == [0, 1, 2]
            (elsewhere,) = numbers.ended_in
            assert elsewhere is not here
            await trio.testing.wait_all_tasks_blocked()
            has_ended = numbers.ended.is_set()
            numbers.over.set()
        assert has_ended

    run_as_guest(main)


def test_a_generator_may_be_dropped_when_the_loop_has_ended() -> None:
    kept: list[AsyncIterator[int | None]] = []
    numbers = Numbers()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            kept.append(numbers.generate(nursery))
            await taken_elsewhere(lambda: kept[0], 3)
            assert not numbers.ended_in
            nursery.cancel_scope.cancel()

    run_as_guest(main)
    kept.clear()
    assert numbers.ended_in == [threading.current_thread()]
