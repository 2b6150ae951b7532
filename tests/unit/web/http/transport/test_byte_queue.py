"""A queue of bytes between two tasks: what the consumer takes, and what the producers wait for."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from web.http.transport.byte_queue import ByteQueue


async def test_the_consumer_takes_all_bytes_at_once() -> None:
    queue = ByteQueue()
    queue.put(b"ab")
    queue.put(b"c")
    assert len(queue) == 3
    assert await queue.get() == b"abc"
    assert len(queue) == 0


async def test_the_consumer_waits_for_bytes(nursery: trio.Nursery) -> None:
    queue, taken = ByteQueue(), []

    async def consume() -> None:
        taken.append(await queue.get())

    nursery.start_soon(consume)
    await wait_all_tasks_blocked()
    assert not taken
    queue.put(b"late")
    await wait_all_tasks_blocked()
    assert taken == [b"late"]


async def test_bytes_count_as_handled_when_the_consumer_comes_back(nursery: trio.Nursery) -> None:
    queue, joined = ByteQueue(), trio.Event()

    async def join() -> None:
        await queue.join()
        joined.set()

    await queue.join()  # nothing was put
    queue.put(b"ab")
    nursery.start_soon(join)
    assert await queue.get() == b"ab"
    await wait_all_tasks_blocked()
    assert not joined.is_set()  # taken, and not yet handled
    nursery.start_soon(queue.get)
    await wait_all_tasks_blocked()
    assert joined.is_set()
    nursery.cancel_scope.cancel()


async def test_what_comes_while_bytes_are_handled_is_waited_for_too(nursery: trio.Nursery) -> None:
    queue, joined = ByteQueue(), trio.Event()

    async def join() -> None:
        await queue.join()
        joined.set()

    queue.put(b"first")
    nursery.start_soon(join)
    assert await queue.get() == b"first"
    queue.put(b"second")
    assert await queue.get() == b"second"
    await wait_all_tasks_blocked()
    assert not joined.is_set()
    queue.close()
    await wait_all_tasks_blocked()
    assert joined.is_set()


async def test_a_closed_queue_drops_bytes_and_lets_nobody_wait(autojump_clock: MockClock) -> None:
    queue = ByteQueue()
    queue.put(b"never taken")
    queue.close()
    with trio.fail_after(1):
        await queue.join()
    queue.put(b"dropped")
    assert len(queue) == len(b"never taken")
