"""The slot table of a model whose windowed layers keep a ring: which lengths it says that a slot can go on from."""

from __future__ import annotations

import pytest

from actors.core.slot_views import Provenance, SlotView
from actors.core.slots import SlotTable
from runtime.kv.rings import Rings
from runtime.kv.token_chain import TokenChain
from tests.fakes.holds import record_of
from tests.fakes.kv_simulation import ROOT, text

RINGS = Rings((None, 10), 8)
A, B = ("a", 0), ("b", 0)
TOKENS = list(range(100))


def table_with(length: int, slots: int = 1) -> tuple[SlotTable, SlotView]:
    """A table, and its first slot, into which so many tokens were read, four at a time."""
    table = SlotTable(slots, 200, root=ROOT, rings=RINGS)
    slot = table.grant(A, TokenChain(ROOT, [*TOKENS[:length], 7]))
    assert slot is not None
    for start in range(0, length, 4):
        rows = TOKENS[start : min(start + 4, length)]
        table.note_written(slot, start + len(rows))
        table.commit(slot, rows)
    return table, slot


def granted(table: SlotTable, prompt: list[int]) -> int:
    """Return how much of a prompt is there, in the slot that is granted to it."""
    slot = table.grant(B, TokenChain(ROOT, prompt))
    assert slot is not None
    table.check_integrity()
    return len(slot.tokens)


@pytest.mark.parametrize(("shared", "usable"), [(40, 40), (31, 31), (30, 0), (5, 0)])
def test_a_prompt_gets_what_the_ring_bears_or_nothing(shared: int, usable: int) -> None:
    table, slot = table_with(40)
    assert slot.least == 31
    table.release(slot)
    assert granted(table, [*TOKENS[:shared], 777, 778]) == usable


def test_a_sequence_that_fits_its_ring_can_be_trimmed_to_any_length() -> None:
    table, slot = table_with(18)
    table.release(slot)
    assert granted(table, [*TOKENS[:3], 777]) == 3


def test_rows_that_were_not_committed_count() -> None:
    """A chunk that was cancelled, or drafts that were rejected, are in the ring as well."""
    table, slot = table_with(40)
    table.note_written(slot, 48)
    assert slot.least == 39
    table.trim(slot, 39)
    assert len(slot.tokens) == 39
    table.trim(slot, 38)
    assert slot.tokens == []


def test_a_slot_that_was_emptied_begins_anew() -> None:
    table, slot = table_with(40)
    table.invalidate(slot)
    assert (slot.least, slot.windows_from) == (0, 0)
    table.note_written(slot, 4)
    table.commit(slot, TOKENS[:4])
    assert slot.least == 0


def test_what_a_slot_holds_says_which_blocks_are_whole() -> None:
    table = SlotTable(1, 500, root=ROOT, rings=Rings((None, 10), 70))
    slot = table.grant(A, TokenChain(ROOT, text(200, 1)))
    assert slot is not None
    table.note_written(slot, 200)
    table.commit(slot, text(200, 1))
    resident = slot.resident()
    assert resident.windows_from == 200 - 10 - 70
    assert [resident.has_windows(number) for number in range(3)] == [False, False, True]


@pytest.mark.parametrize(("shared", "copied"), [(40, 40), (31, 31), (30, 0)])
def test_a_prefix_is_offered_to_another_slot_if_the_ring_bears_it(shared: int, copied: int) -> None:
    table, _ = table_with(40, slots=2)
    prompt = TokenChain(ROOT, [*TOKENS[:shared], 777, 778])
    assert table.longest_live_prefix(prompt, limit=len(prompt) - 1, besides=None)[1] == copied
    assert table.longest_live_prefix(prompt, limit=30, besides=None)[1] == 0


def test_what_was_moved_in_without_a_ring_is_not_there_yet() -> None:
    table, slot = table_with(20)
    table.stage(slot, 84, Provenance([b"x"], dict.fromkeys({b"x"}, 0)))
    assert (len(slot.tokens), slot.staged) == (20, 84)
    table.commit_transferred(slot, TOKENS[20:90], least=88)
    assert (len(slot.tokens), slot.staged, slot.least) == (90, 0, 88)
    assert set(slot.stands_on) == {b"x"}
    table.check_integrity()


@pytest.mark.parametrize("change", ["commit", "trim", "release", "invalidate"])
def test_any_other_change_drops_what_was_moved_in_so_far(change: str) -> None:
    table, slot = table_with(20)
    table.stage(slot, 84, Provenance())
    match change:
        case "commit":
            table.commit(slot, [1])
        case "trim":
            table.trim(slot, 20)
        case "release":
            table.release(slot)
        case "invalidate":
            table.invalidate(slot)
    assert slot.staged == 0
    table.check_integrity()


def test_a_load_that_broke_off_in_a_slot_without_tokens_leaves_nothing() -> None:
    """Rings were written up to there, and what was moved in before is no more than staged."""
    table = SlotTable(1, 500, root=ROOT, rings=Rings((None, 24), 128))
    slot = table.grant(A, TokenChain(ROOT, text(200, 1)))
    assert slot is not None
    table.stage(slot, 64, Provenance([b"x"], dict.fromkeys({b"x"}, 0), 64))
    table.note_written(slot, 192)
    table.trim(slot, 64)
    assert (slot.least, slot.restored_to, list(slot.trial)) == (0, 0, [])
    table.check_integrity()


@pytest.mark.parametrize(
    ("behind", "piece", "follows"), [(4, 0, True), (5, 0, False), (100, 199, False), (100, 200, True)]
)
def test_who_could_not_copy_what_another_reads_does_not_wait_for_it(behind: int, piece: int, *, follows: bool) -> None:
    """What follows the shared beginning in the other prompt is no more than a step's rows, or a copy is one piece."""
    shared = text(200, 1)
    table = SlotTable(2, 1000, root=ROOT, rings=RINGS)
    prompts = [TokenChain(ROOT, [*shared, *text(behind, 2)]), TokenChain(ROOT, [*shared, 777])]
    slots = [table.grant(owner, prompt) for owner, prompt in zip((A, B), prompts, strict=True)]
    leader, follower = (
        record_of(slot.owner[0], prompt, slot, table.owner)
        for slot, prompt in zip(slots, prompts, strict=True)
        if slot and slot.owner
    )
    follower.follow([leader], RINGS, piece)
    assert follower.has_leaders == follows
