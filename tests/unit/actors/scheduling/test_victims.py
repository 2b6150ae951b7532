"""Victims: who leaves its slot to whom: pure functions of what is there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from actors.core.commands import Submit
from actors.core.hold import Rank
from actors.core.holds import HoldRecord
from actors.core.life import Event, Life, State
from actors.core.slot_views import SlotView
from actors.core.slots import SlotTable
from actors.scheduling.victims import MAX_PREEMPTIONS, choose, is_at_rest
from runtime.common.ownership import TaskOwner
from tests.fakes.holds import ticket_of
from tests.sim.history import ROOT

TOKENS = list(range(70))
DRAWN = 7


class World:
    """Slots with holders of these priorities, granted in this order."""

    def __init__(self, *priorities: int) -> None:
        self.owner = TaskOwner()
        self.table = SlotTable(len(priorities), 256, root=ROOT, owner=self.owner)
        self.records = [self._hold(number, priority) for number, priority in enumerate(priorities)]

    def _hold(self, number: int, priority: int) -> HoldRecord:
        ticket = replace(ticket_of(f"r{number}", TOKENS), rank=Rank(priority))
        slot = self.table.grant(ticket.key, ticket.prompt)
        assert slot is not None
        life = Life(self.owner)
        life.take(Event.GRANTED)
        return HoldRecord(ticket, slot, life, self.owner, self.table.grants)

    def chosen(self, priority: int, slots: int, before: int = 100) -> Sequence[str]:
        """Return who goes for one of a priority that needs so many slots."""

        def is_enough(freed: Collection[int]) -> bool:
            return len(freed) >= slots

        found = choose(self.records, priority, before, is_enough)
        return [record.hold.request_id for record in found]


def test_the_least_important_goes_and_of_equals_the_last() -> None:
    assert World(5, 9, 9, 7).chosen(0, 1) == ["r2"]
    assert World(5, 9, 9, 7).chosen(0, 3) == ["r2", "r1", "r3"]


def test_equals_and_better_ones_stay() -> None:
    assert World(0, 0, -3).chosen(0, 1) == []


def test_nobody_goes_where_all_were_not_enough() -> None:
    assert World(5, 0).chosen(0, 2) == []


def test_who_came_after_the_other_had_begun_to_wait_stays() -> None:
    assert World(5, 9).chosen(0, 1, before=1) == ["r0"]


def test_who_was_preempted_least_goes_first_and_nobody_too_often() -> None:
    world = World(9, 9)
    world.records[1].ledger.note_preempted()
    assert world.chosen(0, 1) == ["r0"]
    for _ in range(MAX_PREEMPTIONS):
        world.records[0].ledger.note_preempted()
    assert world.chosen(0, 1) == ["r1"]


def test_a_smaller_one_stays_where_a_larger_one_is_enough() -> None:
    world = World(9, 8)
    found = choose(world.records, 0, 100, lambda freed: world.records[1].slot.id in freed)
    assert [record.hold.request_id for record in found] == ["r1"]


@pytest.fixture
def record() -> HoldRecord:
    """One that has read its prompt."""
    world = World(9)
    (record,) = world.records
    commit(world.table, record.slot)
    return record


def commit(table: SlotTable, slot: SlotView) -> None:
    """Let a slot have the prompt's KV."""
    assert table.pages.give(slot, len(TOKENS), len(TOKENS))
    table.commit(slot, TOKENS)


def submit(record: HoldRecord, phase: State, rows: Sequence[int]) -> None:
    """Let it wait for rows."""
    record.ask(Submit(record.hold.ticket, phase, rows, None))


def test_one_that_waits_for_its_next_token_is_at_rest(record: HoldRecord) -> None:
    assert not is_at_rest(record, 0), "it is at something else"
    submit(record, State.DECODE, (DRAWN,))
    assert is_at_rest(record, 0)


def test_amid_a_round_of_its_drafter_it_is_not(record: HoldRecord) -> None:
    submit(record, State.DRAFT, (*TOKENS[60:], DRAWN))
    assert is_at_rest(record, 60)
    submit(record, State.DRAFT, (DRAWN,))
    assert not is_at_rest(record, len(TOKENS) + 1)


def test_one_that_is_cancelled_is_not(record: HoldRecord) -> None:
    submit(record, State.DECODE, (DRAWN,))
    record.hold.ticket.note_cancel()
    assert not is_at_rest(record, 0)


def test_a_prompt_that_may_use_no_cached_kv_is_read_to_its_end(record: HoldRecord) -> None:
    submit(record, State.PREFILL, TOKENS[-1:])
    assert is_at_rest(record, 0)
    record.hold.ticket = replace(record.hold.ticket, reuse=False)
    record.hold.prompt = record.hold.ticket.prompt
    assert not is_at_rest(record, 0)
