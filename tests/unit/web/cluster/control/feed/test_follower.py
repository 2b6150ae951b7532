"""One reader of several workers: none waits for another, and nothing is asked for nobody."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from tests.unit.web.cluster.control.feed.workers import A, B, TellingWorkers, frame, snapshot
from web.cluster.control.feed.follower import followed
from web.cluster.settings import SILENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from web.cluster.control.feed.untaken import Untaken

C = "000000000000000c"


def short(told: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """Return what became of whom."""
    return [(value["worker"], value.get("standing", kind)) for kind, value in told]


async def news(untaken: Untaken) -> list[tuple[str, str]]:
    """The next news."""
    await untaken.wait()
    return short(untaken.take())


@asynccontextmanager
async def read(workers: TellingWorkers, *, follow: bool = True) -> AsyncIterator[Untaken]:
    """A reader, once it has asked all workers."""
    async with followed(workers, trio.Event(), follow=follow) as untaken:
        await trio.testing.wait_all_tasks_blocked()
        yield untaken


async def test_a_reader_that_goes_away_ends_all_streams(mock_clock: trio.testing.MockClock) -> None:
    workers = TellingWorkers(A, B)
    with trio.CancelScope() as reader:
        async with read(workers):
            workers.tell(A, snapshot())
            await trio.testing.wait_all_tasks_blocked()
            assert workers.open == {A: 1, B: 1}
            reader.cancel()
            await trio.lowlevel.checkpoint()
    assert workers.open == {A: 0, B: 0}
    async with read(workers):
        assert workers.open == {A: 1, B: 1}
    assert workers.open == {A: 0, B: 0}


async def test_one_that_says_nothing_holds_nobody_up(autojump_clock: trio.testing.MockClock) -> None:
    workers = TellingWorkers(A, B)
    async with read(workers) as untaken:
        assert await news(untaken) == [(A, "joined")]
        assert await news(untaken) == [(B, "joined")]
        for n in range(20):
            workers.tell(B, frame(n))
            assert await news(untaken) == [(B, "frame")]
        assert trio.current_time() == pytest.approx(0)
        await trio.sleep(1)
        workers.tell(B, None)
        assert await news(untaken) == [(A, "silent")]
        assert trio.current_time() == pytest.approx(SILENCE_SECONDS)


async def test_one_that_falls_silent_is_asked_again_and_said_to_be_silent_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    workers = TellingWorkers(A)
    async with read(workers) as untaken:
        assert await news(untaken) == [(A, "joined")]
        workers.tell(A, snapshot())
        assert await news(untaken) == [(A, "snapshot")]
        workers.break_off(A)
        assert await news(untaken) == [(A, "silent")]
        await trio.sleep(3 * SILENCE_SECONDS)
        assert (workers.asked[A], workers.open[A], untaken.has_news) == (4, 1, False)
        workers.tell(A, snapshot())
        assert await news(untaken) == [(A, "snapshot")]


async def test_a_sign_of_life_is_not_told_and_keeps_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    workers = TellingWorkers(A)
    async with read(workers) as untaken:
        assert await news(untaken) == [(A, "joined")]
        for _ in range(10):
            await trio.sleep(SILENCE_SECONDS / 2)
            workers.tell(A, None)
        assert (workers.asked[A], untaken.has_news) == (1, False)


async def test_who_joins_and_leaves_is_told_and_no_longer_asked(autojump_clock: trio.testing.MockClock) -> None:
    workers = TellingWorkers(A, B)
    async with read(workers) as untaken:
        assert await news(untaken) + await news(untaken) == [(A, "joined"), (B, "joined")]
        workers.known = [A, C]
        assert await news(untaken) == [(B, "left")]
        assert await news(untaken) == [(C, "joined")]
        await trio.testing.wait_all_tasks_blocked()
        assert workers.open == {A: 1, B: 0, C: 1}
        workers.tell(B, frame(1))
        await trio.testing.wait_all_tasks_blocked()
        assert not untaken.has_news
        workers.known = [A, B, C]
        assert await news(untaken) == [(B, "joined")]
        assert await news(untaken) == [(B, "frame")]


async def test_how_all_stand_is_told_once_and_who_does_not_say_is_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    workers = TellingWorkers(A, B)
    workers.tell(A, snapshot())
    workers.tell(A, frame(1))
    async with read(workers, follow=False) as untaken:
        assert await news(untaken) == [(A, "snapshot")]
        assert await news(untaken) == [(B, "silent")]
        await untaken.wait()
        assert (untaken.is_over, untaken.has_news) == (True, False)
    assert workers.open == {A: 0, B: 0}
