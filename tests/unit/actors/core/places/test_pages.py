"""Extents of slots' sequences: what they are given, what is taken back, and how they are moved."""

from __future__ import annotations

import pytest

from actors.core.slot_views import SlotView
from actors.core.slots import SlotInFlight, SlotTable
from runtime.kv.arena import Extent, Relocation
from runtime.kv.token_chain import TokenChain
from runtime.step.transfer import Relocate
from tests.fakes.kv_simulation import ROOT, text

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def table_of(*lengths: int, slots: int = 3, positions: int = 640) -> SlotTable:
    """A table whose first slots are held, and have so many tokens and room for them."""
    table = SlotTable(slots, 512, positions=positions, root=ROOT)
    for owner, length in zip((A, B, C), lengths, strict=False):
        slot = table.grant(owner, TokenChain(ROOT, text(length + 1, length)), reserved=length + 1)
        assert slot is not None
        assert table.extents.give(slot, length, length)
        table.commit(slot, text(length, length))
    table.extents.check_integrity()
    return table


def test_no_more_is_reserved_than_there_is() -> None:
    table = table_of(300, slots=3)
    assert table.extents.reserved == 320
    assert table.extents.grantable([320, 1]) == 1
    assert table.extents.grantable([100, 100, 100]) == 2  # slots are free for so many
    assert table.grant(B, TokenChain(ROOT, [1]), reserved=321) is None
    assert table.grant(B, TokenChain(ROOT, [1]), reserved=320) is not None
    assert table.extents.reserved == 640, "also what there is no room for yet"


def test_a_reservation_ends_with_its_hold() -> None:
    table = table_of(300)
    table.release(table.slot(0))
    assert table.extents.reserved == 0


def test_what_a_released_slot_does_not_need_is_taken_back() -> None:
    table = table_of(100)
    slot = table.slot(0)
    table.extents.give(slot, 300, 500)
    assert slot.capacity == 512
    table.extents.fit(slot)
    assert slot.capacity == 128
    table.trim(slot, 10)
    table.release(slot)
    table.extents.fit(slot, least=70)
    assert slot.capacity == 128
    table.extents.fit(slot)
    assert slot.capacity == 64


def test_a_resident_that_is_evicted_keeps_its_place_until_its_blocks_are_out() -> None:
    table = table_of(100)
    slot = table.slot(0)
    table.release(slot)
    resident = table.evict(slot)
    assert len(resident.tokens) == 100
    assert (len(slot.tokens), slot.capacity) == (0, 128)
    table.extents.fit(slot)
    assert slot.capacity == 0


def move(table: SlotTable, owner: int, first: int) -> None:
    """Begin to move a slot's sequence, with as much room as it has."""
    slot = table.slot(owner)
    table.extents.begin_relocation(Relocation(owner, Extent(first, slot.capacity)), 0, wanted_by=slot)


def test_a_sequence_goes_down_from_its_first_row_on_in_pieces_that_do_not_overlap() -> None:
    table = table_of(60, 200)
    table.release(table.slot(0))
    table.extents.drop(_emptied(table, 0))
    slot = table.slot(1)
    move(table, 1, 0)
    assert table.extents.pieces(100) == [Relocate(1, 64, 0, 64), Relocate(1, 128, 64, 36)]
    for piece in table.extents.pieces(100):
        table.extents.note_relocated(piece)
    assert [table.extents.place(slot, position) for position in (0, 99, 100, 199)] == [0, 99, 164, 263]
    assert slot.origin == 64
    for piece in table.extents.pieces(1000):
        table.extents.note_relocated(piece)
    assert table.extents.moving is None
    assert (slot.origin, slot.capacity) == (0, 256)


def test_a_sequence_goes_up_from_its_last_row_on() -> None:
    table = table_of(200)
    slot = table.slot(0)
    move(table, 0, 64)
    assert table.extents.pieces(100) == [Relocate(0, 136, 200, 64), Relocate(0, 100, 164, 36)]
    for piece in table.extents.pieces(100):
        table.extents.note_relocated(piece)
    assert [table.extents.place(slot, position) for position in (0, 99, 100, 199)] == [0, 99, 164, 263]


def test_a_piece_that_fails_is_tried_again_and_then_the_move_is_over() -> None:
    table = table_of(200)
    move(table, 0, 320)
    (piece,) = table.extents.pieces(100)
    assert table.extents.note_failed() is None
    assert table.extents.note_failed() is None
    assert table.extents.pieces(100) == [piece]
    assert table.extents.note_failed() is table.slot(0)
    assert table.extents.moving is None
    assert table.slot(0).origin == 0


def test_no_extent_changes_while_a_step_runs_that_names_it() -> None:
    table = table_of(100, 100)
    slot = table.slot(0)
    with table.in_flight([0]):
        for change in (
            lambda: table.extents.give(slot, 200, 200),
            lambda: table.extents.fit(slot),
            lambda: move(table, 0, 320),
            lambda: table.extents.clear(),
        ):
            with pytest.raises(SlotInFlight):
                change()
    assert table.extents.give(table.slot(1), 200, 200)


def test_a_sequence_without_a_place_is_a_contradiction() -> None:
    table = table_of(100)
    table.commit(table.slot(0), text(100, 1))
    with pytest.raises(AssertionError, match="slot 0: 200 of 128 positions"):
        table.extents.check_integrity()


def _emptied(table: SlotTable, slot_id: int) -> SlotView:
    slot = table.slot(slot_id)
    table.trim(slot, 0)
    return slot
