"""States of the slots: which lengths can be gone on from, and which buffers a step is given."""

from __future__ import annotations

import pytest

from actors.core.slot_views import Provenance, SlotView
from actors.core.slots import SlotTable
from runtime.kv.token_chain import TokenChain
from runtime.step.step import Segment

TOKENS = list(range(100))


def table_with(*lengths: int, slots: int = 1, buffers: int = 8) -> tuple[SlotTable, SlotView]:
    """A table, and its first slot, into which chunks that end there were read."""
    table = SlotTable(slots, 200, retained_places=slots, state_buffers=buffers)
    slot = table.grant(("a", 0), TokenChain(b"", TOKENS))
    assert slot is not None
    for length in lengths:
        run(table, slot, length)
    return table, slot


def run(table: SlotTable, slot: SlotView, length: int, *, passing: bool = False, now: float = 0.0) -> Segment:
    """Read on to that length, in a step of its own."""
    segment = lent(table, slot, length - len(slot.tokens), now=now)
    table.commit(slot, segment.token_ids)
    assert table.states is not None
    table.states.commit(slot, segment.states_after(len(segment.token_ids), goes_on=False), passing=passing)
    table.check_integrity()
    table.states.check_integrity()
    return segment


def lent(table: SlotTable, slot: SlotView, rows: int, spares: int = 0, now: float = 0.0) -> Segment:
    """Return the only segment of a step."""
    assert table.states is not None
    start = len(slot.tokens)
    segment = Segment(slot.id, start, TOKENS[start : start + rows])
    table.states.begin()
    return table.states.lend(segment, [rows], spares, now)


@pytest.mark.parametrize(("restored_to", "usable"), [(0, 90), (64, 90), (128, 0)])
def test_nobody_goes_on_from_a_state_inside_a_block_that_a_tier_gave(restored_to: int, usable: int) -> None:
    """Nor from one of the states before it, inside of another such block."""
    table, slot = table_with(40, 70, 90)
    table.commit_transferred(slot, [], Provenance(restored_to=restored_to))
    other = TokenChain(b"", [*TOKENS[:95], 7, 8])
    assert table.longest_live_prefix(other, limit=96, besides=None)[1] == usable
    table.release(slot)
    assert table.cheapest([slot], other, reuse=True, now=0.0, session=None)[1] == usable


def test_a_step_reads_the_state_that_the_last_one_left() -> None:
    table, slot = table_with(10)
    assert lent(table, slot, 5).state == slot.states[10]


def test_a_slot_goes_on_from_the_greatest_length_that_has_a_state() -> None:
    table, slot = table_with(10, 30, 60)
    assert [slot.usable(length) for length in (9, 10, 29, 31, 60, 99)] == [0, 10, 10, 30, 60, 60]
    table.trim(slot, 45)
    assert (len(slot.tokens), sorted(slot.states)) == (30, [10, 30])
    table.invalidate(slot)
    assert (len(slot.tokens), dict(slot.states)) == (0, {})


def test_a_prompt_is_granted_what_has_a_state_and_offered_it_elsewhere() -> None:
    table, slot = table_with(10, 30, 55, slots=2)
    prompt = TokenChain(b"", [*TOKENS[:50], *range(700, 720)])
    assert table.longest_live_prefix(prompt, limit=69, besides=None) == (slot, 30)
    table.release(slot)
    again = table.grant(("b", 0), prompt)
    assert again is slot
    assert len(slot.tokens) == 30


def test_the_states_of_generated_tokens_pass_but_for_the_last() -> None:
    table, slot = table_with(10)
    for length in (11, 12, 13):
        run(table, slot, length, passing=True)
    assert sorted(slot.states) == [10, 13]
    table.release(slot)
    assert sorted(slot.states) == [10, 13]
    table.grant(("b", 0), TokenChain(b"", TOKENS))
    run(table, slot, 20)
    assert sorted(slot.states) == [10, 13, 20]


def test_a_copy_has_the_state_of_its_source_which_is_free_when_both_have_let_it_go() -> None:
    table, slot = table_with(10, 30, slots=2, buffers=4)
    other = table.grant(("b", 0), TokenChain(b"", [*TOKENS[:30], 777]))
    assert other is not None
    table.commit_transferred(other, TOKENS[:30], Provenance(states={30: slot.states[30]}))
    assert other.states[30] == slot.states[30]
    shared = slot.states[30]
    table.invalidate(slot)
    written = [buffer for _ in range(2) for _, buffer in lent(table, other, 1).next_states]
    assert shared not in written
    table.invalidate(other)
    assert shared in {buffer for _, buffer in run(table, slot, 5).next_states} | {*lent(table, slot, 1, 2).spare_states}


def test_what_lies_in_a_retained_place_has_its_states_there() -> None:
    table, slot = table_with(10, 30)
    before = dict(slot.states)
    table.release(slot)
    (retained,) = table.retained_places
    table.exchange(slot, retained)
    assert (dict(slot.states), dict(retained.states)) == ({}, before)
    assert table.states is not None
    table.states.check_integrity()


def test_buffers_of_a_step_are_those_that_nobody_names_and_no_two_the_same() -> None:
    table, slot = table_with(10, 20, slots=2)
    other = table.grant(("b", 0), TokenChain(b"", [500, 501]))
    assert other is not None
    assert table.states is not None
    table.states.begin()
    segments = [table.states.lend(Segment(one.id, 20, [1, 2]), [1, 2], 1, 0.0) for one in (slot, other)]
    written = [buffer for one in segments for buffer in (*(b for _, b in one.next_states), *one.spare_states)]
    assert len({*written, *slot.states.values()}) == len(written) + 2 == 8


def test_what_was_lent_and_not_named_comes_back_with_the_next_step() -> None:
    table, slot = table_with(10, buffers=4)
    first, again = (lent(table, slot, 5, spares=2) for _ in range(2))
    assert again.next_states == first.next_states
    assert again.spare_states == first.spare_states
    assert sorted(slot.states) == [10]


def test_snapshots_make_way_that_cost_least_and_never_what_a_slot_goes_on_from() -> None:
    table, slot = table_with(30, 50, 55, buffers=3)
    lent(table, slot, 1)
    assert sorted(slot.states) == [30, 55]  # of 50 tokens, 20 are computed again
    lent(table, slot, 1, spares=1)
    assert sorted(slot.states) == [55]


def test_what_is_wanted_less_makes_way_before_and_what_a_cancel_left_last() -> None:
    for held_until, left in ((0.0, []), (9.0, [40])):
        table, slot = table_with(40, slots=2, buffers=4)
        table.release(slot, held_until)
        other = table.grant(("b", 0), TokenChain(b"", range(200, 299)), now=1.0)
        assert other is not None
        assert other is not slot
        for length in (30, 60):
            run(table, other, length, now=1.0)
        lent(table, other, 1, spares=1, now=1.0)
        assert sorted(slot.states) == left


@pytest.mark.parametrize("is_displaced", [False, True])
def test_the_end_of_what_is_held_or_being_copied_out_makes_way_last(is_displaced: bool) -> None:
    """It costs least to compute again, and whoever comes back goes on from there."""
    table, slot = table_with(30, 50, 55, slots=2, buffers=4)
    table.release(slot, 0.0 if is_displaced else 9.0)
    if is_displaced:
        table.grant(("b", 0), TokenChain(b"", [*TOKENS[:20], 7]))
    other = table.grant(("c", 0), TokenChain(b"", range(200, 299)), now=1.0)
    assert other is not None
    lent(table, other, 1, spares=2, now=1.0)
    assert [*slot.states, *slot.displaced.values()] == [55]
