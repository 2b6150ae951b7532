"""Turns of connections, and what they take of the event loop, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from web.http.transport.loop_share import CREDIT, REST, LoopShare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock


@pytest.fixture
def share() -> Iterator[LoopShare]:
    """Beside something that is being answered."""
    share = LoopShare()
    with share.answering():
        yield share


async def test_each_second_that_is_taken_is_followed_by_its_rest(share: LoopShare, autojump_clock: MockClock) -> None:
    for _ in range(100):
        await share.turn()
        share.charge(1)
    assert trio.current_time() == pytest.approx(99 * (1 + REST), abs=1.1)


async def test_who_takes_less_than_a_share_never_waits(share: LoopShare, autojump_clock: MockClock) -> None:
    for number in range(100):
        before = trio.current_time()
        await share.turn()
        assert trio.current_time() == before, number
        share.charge(CREDIT / (1 + REST))
        await trio.sleep(CREDIT)


async def test_a_pause_earns_no_more_than_a_credit(share: LoopShare, autojump_clock: MockClock) -> None:
    await trio.sleep(10**6)
    share.charge(1)
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() - before == pytest.approx(REST - CREDIT)


async def test_turns_come_in_order_and_one_for_each_who_waits(share: LoopShare, autojump_clock: MockClock) -> None:
    """A connection with much to handle has one turn for each of its neighbour's."""
    order = list[str]()

    async def handle(name: str, count: int) -> None:
        for _ in range(count):
            await share.turn()
            order.append(name)
            share.charge(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle, "flood", 100)
        await wait_all_tasks_blocked()
        for name in "abc":
            nursery.start_soon(handle, name, 3)
            await wait_all_tasks_blocked()
    assert "".join(name[0] for name in order)[:13].replace("f", "") == "abcabcabc", order[:20]


async def test_who_leaves_while_it_waits_takes_no_turn(share: LoopShare, autojump_clock: MockClock) -> None:
    share.charge(100)
    with trio.move_on_after(1) as scope:
        await share.turn()
    assert scope.cancelled_caught
    await share.turn()


async def test_the_steps_of_a_task_count_and_its_waits_do_not(share: LoopShare, mock_clock: MockClock) -> None:

    async def work() -> str:
        mock_clock.jump(2)  # a step that takes so long
        await trio.lowlevel.checkpoint()
        with pytest.raises(ValueError, match="thrown"):
            await wait_and_raise()
        mock_clock.jump(3)
        return "done"

    async def wait_and_raise() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("thrown")

    assert await share.charged(work()) == "done"
    began, waited = trio.current_time(), trio.Event()

    async def take() -> None:
        await share.turn()
        waited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        mock_clock.jump(5 * REST - 1)
        await wait_all_tasks_blocked()
        assert not waited.is_set(), trio.current_time() - began
        mock_clock.jump(1)
        await waited.wait()


async def test_what_is_over_counts_no_more(share: LoopShare, mock_clock: MockClock) -> None:
    over = False

    async def answer() -> None:
        nonlocal over
        over = True
        mock_clock.jump(100)
        await trio.lowlevel.checkpoint()
        mock_clock.jump(100)

    await share.charged(answer(), lambda: over)
    await share.turn()


async def test_a_task_is_cancelled_and_fails_as_it_does_without(share: LoopShare, autojump_clock: MockClock) -> None:
    seen = list[str]()

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.append("cancelled")
            raise

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError

    with trio.move_on_after(1) as scope:
        await share.charged(wait())
    assert scope.cancelled_caught
    assert seen == ["cancelled"]
    with pytest.raises(KeyError):
        await share.charged(fail())


async def test_where_nothing_is_answered_any_more_nobody_rests(autojump_clock: MockClock) -> None:
    share, began = LoopShare(), trio.current_time()
    share.charge(1000)
    await share.turn()
    async with trio.open_nursery() as nursery:
        with share.answering():
            nursery.start_soon(share.turn)
            await trio.sleep(5)
            assert len(nursery.child_tasks) == 1
    assert trio.current_time() - began == 5
