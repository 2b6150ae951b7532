"""Unread tokens: the backlogs, the rule by which a reader is cut, and what that means for its request."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio

from actors.core.generation import Event, Failed, Finished, FinishReason, Token
from actors.core.receipts import CancelReason
from actors.generating.buffer import size_of
from actors.generating.unread import BEHIND, Backlog, Unread
from runtime.errors import AnswersUnread, AnswerTooLarge, CedeError, QueueFull
from tests.fakes.engine import finished, token
from tests.fakes.simulation import Simulation, ask, open_simulation, prompt, simulated

EVENT = size_of(token("x"))


# --- the backlogs -----------------------------------------------------------------------------------------------------


def cut_names(*backlogs: Backlog) -> list[str]:
    return [backlog.name for backlog in backlogs if backlog.error is not None]


def held(unread: Unread) -> int:
    unread.check_integrity()
    return unread.statistics().bytes


def test_an_account_is_known_while_it_holds_something() -> None:
    unread = Unread()
    with unread.backlog("a") as a, unread.backlog("b"):
        assert unread.statistics().readers == 0
        a.set_size(7)
        assert (held(unread), unread.statistics().readers) == (7, 1)
        a.set_size(0)
        assert (held(unread), unread.statistics().readers) == (0, 0)


def test_whatever_a_scope_holds_at_its_end_is_let_go() -> None:
    unread = Unread()

    def fail(backlog: Backlog) -> None:
        with backlog:
            backlog.set_size(7)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(a := unread.backlog("a"))
    a.set_size(9)
    assert held(unread) == 0
    assert a.error is None


def test_one_that_holds_too_much_itself_is_cut() -> None:
    unread = Unread(budget=1000, each=100)
    a, b = unread.backlog("a"), unread.backlog("b")
    b.set_size(100)
    a.set_size(101)
    assert isinstance(a.error, AnswerTooLarge)
    assert held(unread) == 100
    a.set_size(5)
    assert held(unread) == 100, "who was cut holds nothing any more"
    with pytest.raises(AnswerTooLarge):
        a.check()
    b.check()


def test_of_those_who_are_behind_the_one_that_holds_most_is_cut_whoever_was_last() -> None:
    unread = Unread(budget=6 * BEHIND)
    slow, slower, other = (unread.backlog(name) for name in ("slow", "slower", "other"))
    slow.set_size(2 * BEHIND)
    slower.set_size(3 * BEHIND)
    other.set_size(BEHIND)
    assert cut_names(slow, slower, other) == []
    other.set_size(BEHIND + 1)
    assert cut_names(slow, slower, other) == ["slower"]
    assert isinstance(slower.error, AnswersUnread)
    assert held(unread) == 3 * BEHIND + 1
    assert unread.statistics().cut == 1


def test_an_answer_that_is_gathered_is_not_behind_and_goes_after_those_who_are() -> None:
    unread = Unread(budget=5 * BEHIND)
    gathered, slow = unread.backlog("gathered", gathering=True), unread.backlog("slow")
    gathered.set_size(3 * BEHIND)
    slow.set_size(2 * BEHIND)
    gathered.set_size(4 * BEHIND)
    assert cut_names(gathered, slow) == ["slow"]
    gathered.set_size(5 * BEHIND + 1)
    assert cut_names(gathered, slow) == ["gathered", "slow"]
    assert held(unread) == 0


def test_a_reader_who_keeps_up_goes_after_answers_that_are_gathered() -> None:
    unread = Unread(budget=3 * BEHIND)
    reads, gathered = unread.backlog("reads"), unread.backlog("gathered", gathering=True)
    gathered.set_size(2 * BEHIND + 1)
    reads.set_size(BEHIND)
    assert cut_names(reads, gathered) == ["gathered"]


def test_of_several_that_hold_the_same_the_first_is_cut() -> None:
    unread = Unread(budget=5 * BEHIND)
    backlogs = [unread.backlog(name) for name in "abc"]
    for backlog in backlogs:
        backlog.set_size(2 * BEHIND)
    assert cut_names(*backlogs) == ["a"]


def test_cutting_calls_back_once_with_nothing_held_and_keeps_no_reference() -> None:
    calls: list[tuple[CedeError, int]] = []
    unread = Unread(each=10)
    backlog = unread.backlog("a")
    backlog.on_cut = lambda error: calls.append((error, backlog.held))
    backlog.set_size(11)
    backlog.set_size(12)
    assert calls == [(backlog.error, 0)]
    assert backlog.on_cut is None


@pytest.mark.parametrize("seed", range(20))
def test_the_sum_never_exceeds_the_budget_and_no_more_are_cut_than_needed(seed: int) -> None:
    draw = random.Random(seed)
    unread = Unread(budget=20 * BEHIND, each=8 * BEHIND)
    backlogs = [unread.backlog(str(i), gathering=draw.random() < 0.3) for i in range(12)]
    for _ in range(400):
        backlog = draw.choice(backlogs)
        before = {other: other.held for other in backlogs}
        size = draw.randrange(9 * BEHIND)
        backlog.set_size(size)
        assert held(unread) <= 20 * BEHIND
        for cut in backlogs:
            if cut.error is not None and before[cut]:  # it was cut just now: for itself, or as there was too much
                wanted = before | {backlog: size}
                assert wanted[cut] > 8 * BEHIND or sum(wanted.values()) > 20 * BEHIND
        backlogs = [unread.backlog("new") if other.error is not None else other for other in backlogs]


# --- requests ---------------------------------------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    """Let virtual time pass until it holds."""
    for _ in range(10_000):
        if condition():
            return
        await trio.sleep(0.01)
    raise AssertionError("waited in vain")


async def reading(sim: Simulation, into: list[Event], *prompts: list[int]) -> None:
    """A client that reads at once."""
    story = await sim.client(ask("reads", *prompts, max_tokens=60))
    into.extend(story.events)


@simulated()
async def test_a_reader_that_reads_nothing_is_cut_and_its_neighbour_notices_nothing() -> None:
    async with open_simulation(slots=2, unread_bytes=10 * EVENT) as sim:
        neighbour: list[Event] = []
        async with trio.open_nursery() as clients:
            clients.start_soon(reading, sim, neighbour, prompt(12))
            async with sim.engine.open_request(ask("stalls", prompt(9, start=5), max_tokens=200)) as request:
                await until(lambda: bool(sim.engine.receipts(1)))
                (receipt,) = sim.engine.receipts(9)
                assert (receipt.request_id, receipt.reason) == ("stalls", CancelReason.STALLED_READER)
                assert receipt.slot_freed_at is not None
                told = [event async for event in request]
        (end,) = told
        assert isinstance(end, Failed)
        assert isinstance(end.error, AnswersUnread)
        tokens = [event.token_id for event in neighbour if isinstance(event, Token)]
        assert tokens == sim.model.continuation(prompt(12), 60)
        assert (sim.engine.statistics().unread.cut, sim.engine.statistics().unread.bytes) == (1, 0)


@simulated()
async def test_a_finished_answer_that_nobody_reads_is_let_go_without_a_receipt() -> None:
    async with open_simulation(slots=2, unread_bytes=40 * EVENT) as sim:
        async with sim.engine.open_request(ask("stalls", prompt(9, start=5), max_tokens=30)) as request:
            await until(lambda: request.status().states == ("done",))
            assert sim.engine.statistics().unread.bytes > 30 * EVENT
            async with sim.engine.open_request(ask("second", prompt(9, start=6), max_tokens=20)) as second:
                await until(lambda: second.status().states == ("done",))
                assert len([event async for event in second]) == 21
            (end,) = [event async for event in request]
            assert isinstance(end, Failed)
        assert sim.engine.receipts(9) == []


@simulated()
async def test_each_choice_ends_once_for_who_is_cut() -> None:
    """The end that was read is not said again, and the one that was not is the error."""
    async with open_simulation(slots=2, answer_bytes=20 * EVENT) as sim:
        asked = ask("stalls", prompt(9), prompt(9, start=7), max_tokens=100)
        async with sim.engine.open_request(asked) as request:
            first = await anext(aiter(request))
            assert isinstance(first, Token)
            await until(lambda: request.status().states == ("done", "done"))
            rest = [event async for event in request]
        assert [(event.index, type(event)) for event in rest] == [(0, Failed), (1, Failed)]
        assert all(isinstance(event, Failed) and isinstance(event.error, AnswerTooLarge) for event in rest)
        assert {receipt.reason for receipt in sim.engine.receipts(9)} == {CancelReason.STALLED_READER}


@simulated()
async def test_a_reader_that_keeps_up_is_never_cut_however_much_it_reads() -> None:
    async with open_simulation(slots=2, unread_bytes=6 * EVENT, answer_bytes=4 * EVENT) as sim:
        for n in range(3):
            story = await sim.client(ask(f"r{n}", prompt(9, start=n + 3), max_tokens=100))
            assert story.finished().reason is FinishReason.LENGTH
        assert sim.engine.statistics().unread.cut == 0


@simulated()
async def test_a_request_that_is_left_leaves_no_bytes_behind() -> None:
    async with open_simulation(slots=2) as sim:
        await sim.client(ask("gone", prompt(9), max_tokens=100), reads=False, hang_up_at=0.2)
        await sim.client(ask("stays", prompt(9), max_tokens=10), pause=0.05)
        assert sim.engine.statistics().unread.bytes == 0


@simulated()
async def test_a_request_that_was_refused_leaves_nothing_behind() -> None:
    async with open_simulation(slots=1, queue=0) as sim:
        async with sim.engine.open_request(ask("a", prompt(9), max_tokens=100)):
            refused = await sim.client(ask("b", prompt(9)))
            assert isinstance(refused.error, QueueFull)
        assert sim.engine.statistics().unread.readers == 0


@pytest.mark.parametrize("event", [token("x" * 10_000), finished(text="y" * 10_000)])
def test_text_counts(event: Token | Finished) -> None:
    assert 10_000 < size_of(event) < 11_000
