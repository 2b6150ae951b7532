"""Pages of slots' sequences: what they are given, what is taken back, and what several have."""

from __future__ import annotations

import pytest

from actors.core.slot_views import NOT_RESTORED
from actors.core.slots import SlotInFlight, SlotTable
from runtime.kv.pages import PageTable
from runtime.kv.token_chain import TokenChain
from runtime.step.transfer import CopyPage
from tests.fakes.kv_simulation import ROOT, text

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def table_of(*lengths: int, positions: int = 640, retained: int = 0) -> SlotTable:
    """A table of three slots, the first of which are held, and have so many tokens and room for them."""
    table = SlotTable(3, 512, positions=positions, retained_places=retained, root=ROOT)
    for owner, length in zip((A, B, C), lengths, strict=False):
        slot = table.grant(owner, TokenChain(ROOT, text(length + 1, length)), reserved=length + 1)
        assert slot is not None
        assert table.pages.give(slot, length, length)
        table.commit(slot, text(length, length))
    table.pages.check_integrity()
    return table


def sharing(length: int = 200, end: int = 200) -> SlotTable:
    """A table whose second slot has what it can of the first one's pages, and none of its tokens yet."""
    table = table_of(length)
    slot = table.grant(B, TokenChain(ROOT, [1]), reserved=end + 1)
    assert slot is not None
    table.pages.share(slot, table.slot(0), end)
    return table


def test_no_more_is_promised_than_there_is() -> None:
    table = table_of(300)
    assert table.pages.promised == 320
    assert table.pages.grantable([320, 1]) == 1
    assert table.pages.grantable([100, 100, 100]) == 2  # slots are free for so many
    assert table.grant(B, TokenChain(ROOT, [1]), reserved=321) is None
    assert table.grant(B, TokenChain(ROOT, [1]), reserved=320) is not None
    assert table.pages.promised == 640, "also what there is no room for yet"


def test_a_promise_ends_with_its_hold() -> None:
    table = table_of(300)
    table.release(table.slot(0))
    assert table.pages.promised == 0


def test_what_several_have_is_promised_once_and_what_one_is_to_share_not_at_all() -> None:
    table = table_of(200)
    slot = table.grant(B, TokenChain(ROOT, [1]), reserved=300, expected=192)
    assert slot is not None
    assert table.pages.promised == 256 + (320 - 192)
    table.pages.share(slot, table.slot(0), 200)
    table.commit(slot, text(192, 200))
    assert table.pages.promised == 256 + (320 - 192), "of the one who expected them they are known now"
    table.trim(table.slot(0), 0)
    table.release(table.slot(0))
    assert table.pages.promised == 320, "it has them alone"


def test_who_reads_its_prompt_itself_expects_nothing_any_more() -> None:
    table = table_of(200)
    slot = table.grant(B, TokenChain(ROOT, [1]), reserved=300, expected=192)
    assert slot is not None
    table.pages.expect_nothing(slot)
    assert table.pages.promised == 256 + 320


def test_pages_are_given_as_many_as_are_wanted_if_these_are_there() -> None:
    table = table_of(100)
    slot = table.slot(0)
    assert table.pages.give(slot, 200, 1000), "as many as there are"
    assert (slot.capacity, table.pages.free) == (640, 0)
    assert not table.pages.give(table.slot(1), 1, 1)
    assert slot.pages == PageTable(tuple(range(10)))


def test_what_a_slot_does_not_need_is_taken_back() -> None:
    table = table_of(100)
    slot = table.slot(0)
    table.pages.give(slot, 300, 500)
    assert slot.capacity == 512
    table.pages.fit(slot)
    assert slot.capacity == 128
    table.trim(slot, 10)
    table.release(slot)
    table.pages.fit(slot, least=70)
    assert slot.capacity == 128, "what is still to be copied out stays"
    table.pages.fit(slot)
    assert slot.capacity == 64


def test_what_the_drafter_has_and_what_is_staged_is_needed_too() -> None:
    table = table_of(60)
    slot = table.slot(0)
    table.pages.give(slot, 320, 320)
    table.commit_draft(slot, 0, 70)
    table.pages.fit(slot)
    assert slot.capacity == 128
    table.end_round(slot, 60)
    table.stage(slot, 130, NOT_RESTORED)
    table.pages.give(slot, 320, 320)
    table.pages.fit(slot)
    assert slot.capacity == 192


def test_a_resident_that_is_evicted_keeps_its_pages_until_its_blocks_are_out() -> None:
    table = table_of(100)
    slot = table.slot(0)
    table.release(slot)
    resident = table.evict(slot)
    assert len(resident.tokens) == 100
    assert (len(slot.tokens), slot.capacity) == (0, 128)
    table.pages.fit(slot)
    assert slot.capacity == 0


@pytest.mark.parametrize(("end", "shared", "pages"), [(63, 0, 0), (64, 64, 1), (191, 128, 2), (200, 192, 3)])
def test_whole_pages_are_shared_and_no_more(end: int, shared: int, pages: int) -> None:
    table = sharing(end=end)
    source, slot = table.slot(0), table.slot(1)
    assert slot.pages.pages == source.pages.pages[:pages]
    assert (table.pages.counts.shared_tokens, table.pages.statistics().shared) == (shared, shared)
    assert [table.pages.readers(page) for page in source.pages.pages] == [2] * pages + [1] * (4 - pages)
    table.pages.check_integrity()


def test_what_is_shared_goes_on_behind_the_page_of_a_slot_s_last_token() -> None:
    """One page that the slot had stays behind it, for what is not shared; the others are free."""
    table = table_of(300, 70)
    source, slot = table.slot(0), table.slot(1)
    table.pages.give(slot, 320, 320)
    first, second, spare = slot.pages.pages[0], slot.pages.pages[1], slot.pages.pages[-1]
    assert table.pages.share(slot, source, 300) == (128, 256)
    assert slot.pages.pages == (first, second, *source.pages.pages[2:4], spare)
    assert table.pages.free == 640 - 320 - 192
    table.pages.check_integrity()


def test_what_the_drafter_has_comes_with_pages_up_to_their_end() -> None:
    table = table_of(200)
    table.commit_draft(table.slot(0), 1, 199)
    slot = table.grant(B, TokenChain(ROOT, [1]), reserved=200)
    assert slot is not None
    table.pages.share(slot, table.slot(0), 150)
    assert (slot.draft_first, slot.draft_length) == (1, 128)


@pytest.mark.parametrize("who_goes", [0, 1])
def test_whoever_leaves_leaves_the_other_its_pages(who_goes: int) -> None:
    table = sharing()
    table.commit(table.slot(1), text(192, 200))
    staying = table.slot(1 - who_goes).pages
    table.trim(table.slot(who_goes), 0)
    table.release(table.slot(who_goes))
    table.pages.fit(table.slot(who_goes))
    assert table.slot(1 - who_goes).pages == staying
    assert table.pages.statistics().shared == 0
    assert table.pages.free == 640 - staying.capacity
    table.pages.check_integrity()


def test_pages_behind_a_slot_s_tokens_that_others_have_are_left() -> None:
    """Its next rows are to be written there; the last page of its tokens stays, and is copied."""
    table = sharing()
    source, slot = table.slot(0), table.slot(1)
    table.pages.give(slot, 256, 256)
    own = slot.pages.pages[3]
    table.commit(slot, text(70, 200))
    assert table.pages.must_be_owned(slot)
    table.pages.leave(slot)
    assert slot.pages.pages == (*source.pages.pages[:2], own)
    assert table.pages.must_be_owned(slot), "the page of its last tokens"
    table.pages.check_integrity()


def test_a_page_that_others_have_is_copied_before_it_is_written_to() -> None:
    table = sharing()
    source, slot = table.slot(0), table.slot(1)
    table.commit(slot, text(150, 200))
    copied = table.pages.own(slot)
    shared = source.pages.pages[2]
    assert copied == CopyPage(1, shared, 4, 22)
    assert slot.pages == PageTable(source.pages.pages[:3]), "until it was copied"
    table.pages.check_integrity()
    table.pages.note_copied(slot, copied)
    assert slot.pages.pages == (*source.pages.pages[:2], 4)
    assert not table.pages.must_be_owned(slot)
    assert (table.pages.readers(shared), table.pages.readers(4), table.pages.counts.copied_pages) == (1, 1, 1)
    assert table.pages.own(slot) is None
    table.pages.check_integrity()


def test_a_page_that_was_not_copied_is_free_and_the_slot_as_before() -> None:
    table = sharing()
    slot = table.slot(1)
    table.commit(slot, text(150, 200))
    before, free = slot.pages, table.pages.free
    copied = table.pages.own(slot)
    assert copied is not None
    table.pages.note_not_copied(slot, copied)
    assert (slot.pages, table.pages.free, table.pages.counts.copied_pages) == (before, free, 0)
    table.pages.check_integrity()


def test_no_page_is_copied_where_none_is_free_or_the_rows_end_with_it() -> None:
    table = sharing()
    slot = table.slot(1)
    table.commit(slot, text(128, 200))
    assert table.pages.own(slot) is None
    table.commit(slot, text(150, 200)[128:])
    table.pages.give(table.slot(2), 384, 384)
    assert table.pages.own(slot) is None


def test_pages_go_with_what_is_in_them_to_a_retained_place() -> None:
    table = table_of(100, retained=3)
    slot, retained = table.slot(0), table.slot(3)
    pages = slot.pages
    table.release(slot)
    table.exchange(slot, retained)
    assert (retained.pages, slot.capacity) == (pages, 0)
    assert [one.capacity for one in table.pages.statistics().shelves] == [128]
    table.pages.check_integrity()


def test_nobody_has_any_page_when_the_device_was_lost() -> None:
    table = sharing()
    table.commit(table.slot(1), text(150, 200))
    assert table.pages.own(table.slot(1)) is not None, "and it is being copied"
    for slot in table:
        table.trim(slot, 0)
    table.pages.clear()
    assert (table.pages.free, [slot.capacity for slot in table]) == (640, [0, 0, 0])
    table.pages.check_integrity()


def test_each_position_is_counted_once() -> None:
    table = sharing()
    table.commit(table.slot(1), text(192, 200))
    table.pages.give(table.slot(1), 200, 200)
    figures = table.pages.statistics(position_bytes=10)
    assert (figures.held, figures.resident, figures.shared, figures.free) == (320, 0, 192, 320)
    table.release(table.slot(0))
    figures = table.pages.statistics(position_bytes=10)
    assert (figures.held, figures.resident, figures.shared, figures.free) == (256, 64, 192, 320)
    assert (figures.bytes, figures.free_bytes) == (6400, 3200)


def test_no_pages_change_while_a_step_runs_that_names_their_slot() -> None:
    table = table_of(100, 100)
    slot, other = table.slot(0), table.slot(1)
    with table.in_flight([0]):
        for change in (
            lambda: table.pages.give(slot, 200, 200),
            lambda: table.pages.fit(slot),
            lambda: table.pages.share(slot, other, 100),
            lambda: table.pages.leave(slot),
            lambda: table.pages.own(slot),
            lambda: table.pages.clear(),
        ):
            with pytest.raises(SlotInFlight):
                change()
    assert table.pages.give(other, 200, 200)


def test_a_sequence_without_room_is_a_contradiction() -> None:
    table = table_of(100)
    table.commit(table.slot(0), text(100, 1))
    with pytest.raises(AssertionError, match="slot 0: 200 of 128 positions"):
        table.pages.check_integrity()
