"""Timer of connections that are idle for too long."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import MockClock

from web.http.transport.idle_timer import IdleTimer


async def test_it_expires_once_it_has_been_idle_for_so_long(autojump_clock: MockClock) -> None:
    timer = IdleTimer(10)
    timer.begin()
    await timer.expired(trio.sleep_forever)
    assert trio.current_time() == 10


async def test_a_time_that_is_not_idle_does_not_count(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    timer = IdleTimer(10)

    async def serve() -> None:
        await trio.sleep(9)
        timer.stop()
        await trio.sleep(100)
        timer.begin()

    timer.begin()
    nursery.start_soon(serve)
    await timer.expired(trio.sleep_forever)
    assert trio.current_time() == 119


async def test_at_the_end_whoever_is_idle_has_been_so_for_too_long(autojump_clock: MockClock) -> None:
    timer = IdleTimer(10)
    timer.begin()
    await timer.expired(partial(trio.sleep, 3))
    assert trio.current_time() == 3


async def test_at_the_end_whoever_is_busy_may_finish(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    timer = IdleTimer(10)

    async def serve() -> None:
        await trio.sleep(50)
        timer.begin()

    timer.stop()
    nursery.start_soon(serve)
    await timer.expired(partial(trio.sleep, 3))
    assert trio.current_time() == 50


async def test_a_time_that_is_paused_does_not_count_whatever_happens_meanwhile(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timer = IdleTimer(10)

    async def wait_for_others() -> None:
        await trio.sleep(9)
        with timer.paused():
            await trio.sleep(100)
        await trio.sleep(0.5)  # half a second is left
        with timer.paused():
            timer.stop()
            timer.begin()  # ten again
            await trio.sleep(100)

    timer.begin()
    nursery.start_soon(wait_for_others)
    await timer.expired(trio.sleep_forever)
    assert trio.current_time() == 219.5
