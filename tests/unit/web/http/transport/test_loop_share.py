"""Turns of connections, and what they take of the event loop, in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from web.http.transport.loop_share import CREDIT, MOST_REST, REST, YOUNG, LoopShare


def beside_a_stream() -> LoopShare:
    """A share of a loop on which something has been answered for long."""
    share = LoopShare()
    share.begin("stream")
    return share


async def test_each_second_that_is_taken_is_followed_by_its_rest(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    await trio.sleep(YOUNG)
    for _ in range(100):
        await share.turn()
        share.charge(0.1)
    assert trio.current_time() == pytest.approx(9.9 * (1 + REST), abs=0.2)


async def test_who_takes_less_than_a_share_never_waits(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    for number in range(100):
        before = trio.current_time()
        await share.turn()
        assert trio.current_time() == before, number
        share.charge(CREDIT / (1 + REST))
        await trio.sleep(CREDIT)


async def test_a_pause_earns_no_more_than_a_credit(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    await trio.sleep(10**6)
    share.charge(0.1)
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() - before == pytest.approx(0.1 * REST - CREDIT)


async def test_no_rest_is_longer_than_its_bound_whatever_was_taken(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    await trio.sleep(YOUNG)
    for _ in range(2):
        share.charge(600)
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() - before == MOST_REST


async def test_no_turn_waits_longer_though_others_take_more_meanwhile(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    await trio.sleep(YOUNG)

    async def take() -> None:
        while True:
            share.charge(0.01)
            await trio.sleep(0.02)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.sleep(1)
        before = trio.current_time()
        with trio.fail_after(10 * MOST_REST):
            await share.turn()
        assert trio.current_time() - before == pytest.approx(MOST_REST)
        nursery.cancel_scope.cancel()


async def test_turns_come_in_order_and_one_for_each_who_waits(autojump_clock: MockClock) -> None:
    """A connection with much to handle has one turn for each of its neighbour's."""
    share, order = beside_a_stream(), list[str]()

    async def handle(name: str, count: int) -> None:
        for _ in range(count):
            await share.turn()
            order.append(name)
            share.charge(1)

    async with trio.open_nursery() as nursery:
        for name, count in (("flood", 100), ("a", 3), ("b", 3), ("c", 3)):
            nursery.start_soon(handle, name, count)
    rounds = [sorted(order[place : place + 4]) for place in (0, 4, 8)]
    assert rounds == [["a", "b", "c", "flood"]] * 3


async def test_where_nobody_is_answered_for_long_there_is_no_rest(autojump_clock: MockClock) -> None:
    """Short requests alone have all of the loop; who has waited for the model for a while is left its part."""
    share = LoopShare()
    for number in range(100):
        share.begin(number)
        await share.turn()
        share.charge(1)
        share.end(number)
    assert trio.current_time() == 0
    share.begin("long")
    await share.turn()
    await trio.sleep(YOUNG)
    await share.turn()
    assert trio.current_time() == MOST_REST
    share.charge(1)
    share.end("long")
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() == before


async def test_who_leaves_while_it_waits_takes_no_turn(autojump_clock: MockClock) -> None:
    share = beside_a_stream()
    await trio.sleep(YOUNG)
    share.charge(100)
    with trio.move_on_after(1) as scope:
        await share.turn()
    assert scope.cancelled_caught
    await share.turn()


async def test_the_steps_of_a_task_count_and_its_waits_do_not(mock_clock: MockClock) -> None:
    share = beside_a_stream()

    async def work() -> str:
        mock_clock.jump(YOUNG / 2)  # a step that takes so long
        await trio.lowlevel.checkpoint()
        with pytest.raises(ValueError, match="thrown"):
            await wait_and_raise()
        mock_clock.jump(0.15)
        return "done"

    async def wait_and_raise() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("thrown")

    assert await share.charged(work()) == "done"
    waited = trio.Event()

    async def take() -> None:
        await share.turn()
        waited.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        mock_clock.jump((YOUNG / 2 + 0.15) * REST - 0.1)
        await wait_all_tasks_blocked()
        assert not waited.is_set()
        mock_clock.jump(0.1)
        await waited.wait()


async def test_a_task_that_waits_for_the_model_takes_nothing(autojump_clock: MockClock) -> None:
    share = beside_a_stream()

    async def wait() -> None:
        await trio.sleep(YOUNG)
        autojump_clock.jump(100)

    await share.charged(wait(), seconds=YOUNG)
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() == before


async def test_a_connection_takes_something_however_old_it_is(autojump_clock: MockClock) -> None:
    share = beside_a_stream()

    async def handle() -> None:
        await trio.sleep(3600)
        autojump_clock.jump(0.1)

    await share.charged(handle())
    before = trio.current_time()
    await share.turn()
    assert trio.current_time() - before == pytest.approx(0.1 * REST - CREDIT)


async def test_what_is_over_counts_no_more(mock_clock: MockClock) -> None:
    share, over = beside_a_stream(), False

    async def answer() -> None:
        nonlocal over
        over = True
        mock_clock.jump(100)
        await trio.lowlevel.checkpoint()
        mock_clock.jump(100)

    await share.charged(answer(), lambda: over)
    await share.turn()


async def test_a_task_is_cancelled_and_fails_as_it_does_without(autojump_clock: MockClock) -> None:
    share, seen = LoopShare(), list[str]()

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
