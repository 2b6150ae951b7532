"""Room in the pool: who lacks it is given it, what others do not use gives way, and shared pages are copied."""

from __future__ import annotations

import outcome
import pytest

from actors.core.commands import Submit
from actors.core.holds import HoldRecord
from actors.core.life import State
from actors.core.slots import SlotTable
from actors.kv.capacity import CapacityManager
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from runtime.kv.token_chain import TokenChain
from runtime.step.transfer import CopyPage
from tests.fakes.holds import record_of
from tests.fakes.kv_simulation import BLOCK_BYTES, ROOT, text


class World:
    """Slots of a small pool, whose holders want to read their prompts."""

    def __init__(self, slots: int = 3, positions: int = 512) -> None:
        self.table = SlotTable(slots, 512, positions=positions, root=ROOT)
        self.cache = PrefixCache(ROOT, BLOCK_BYTES, ram=0, config=CacheConfig())
        self.capacity = CapacityManager(self.table, self.cache)

    def wanting(self, name: str, length: int, *, reserved: int, have: int = 0, expected: int = 0) -> HoldRecord:
        """Grant a slot to one that has some tokens of its prompt, and wants to read the rest."""
        prompt = text(length, 1)
        slot = self.table.grant((name, 0), TokenChain(ROOT, prompt), reserved=reserved, expected=expected)
        assert slot is not None
        assert self.table.pages.give(slot, have, have)
        self.table.commit(slot, prompt[:have])
        record = record_of(name, prompt, slot, self.table.owner)
        record.ask(Submit(record.hold.ticket, State.PREFILL, prompt[have:], None))
        return record

    def make(self, *records: HoldRecord, can_leave: bool = False) -> bool:
        """Give room to these; returns whether more is promised than there is."""
        is_over = self.capacity.make(records, lambda record: can_leave)
        self.table.pages.check_integrity()
        return is_over


def sharing() -> tuple[World, HoldRecord, CopyPage]:
    """One whose sequence ends inside of a page that another has, too, and the copy that it needs."""
    world = World()
    first = world.wanting("first", 200, reserved=200, have=192)
    second = world.wanting("second", 200, reserved=200)
    world.table.pages.share(second.slot, first.slot, 192)
    world.table.commit(second.slot, text(150, 1))
    assert not world.make(first, second)
    (copied,) = world.capacity.copies([first, second])
    return world, second, copied


async def test_the_first_who_lacks_room_has_it_before_those_who_came_later() -> None:
    world = World(positions=256)
    first, second = (world.wanting(name, 100, reserved=128) for name in ("first", "second"))
    assert not world.make(first, second)
    assert [record.slot.capacity for record in (first, second)] == [128, 128]


async def test_residents_are_evicted_one_by_one_until_there_is_room() -> None:
    world = World(positions=256)
    for name in ("old", "new"):
        world.wanting(name, 100, reserved=128, have=100)
    old, new = world.table.held
    for slot in (old, new):
        world.table.release(slot)
    wanting = world.wanting("wanting", 200, reserved=200)
    world.table.trim(wanting.slot, 0)
    assert not world.make(wanting)
    assert wanting.slot.capacity == 256
    assert world.table.pages.counts.given_up == 1, "of two, one was granted"


@pytest.mark.parametrize("can_leave", [True, False])
async def test_where_more_is_promised_than_there_is_those_who_can_leave_get_nothing_but_the_first(
    *, can_leave: bool
) -> None:
    """The others are to leave; who cannot is given room while there is any."""
    world = World(positions=384)
    first = world.wanting("first", 250, reserved=256)
    second = world.wanting("second", 200, reserved=256, expected=192)
    assert world.make(first, second, can_leave=can_leave), "it reads its prompt itself, though it was to share"
    assert first.slot.capacity == 256
    assert second.slot.capacity == 0


def test_a_page_of_one_s_own_is_in_the_shared_one_s_place_when_it_was_copied() -> None:
    world, record, copied = sharing()
    shared = record.slot.pages.pages[2]
    assert (copied.slot, copied.source, copied.rows) == (record.slot.id, shared, 22)
    world.capacity.settle([copied], [outcome.Value(None)])
    assert record.slot.pages.pages[2] == copied.target
    assert (len(record.slot.tokens), world.table.pages.counts.copied_pages) == (150, 1)
    assert world.capacity.copies([record]) == []
    world.table.pages.check_integrity()


def test_a_copy_that_fails_costs_the_rows_of_its_page() -> None:
    world, record, copied = sharing()
    world.capacity.settle([copied], [outcome.Error(RuntimeError("the device says no"))])
    assert (len(record.slot.tokens), world.table.pages.counts.copied_pages) == (128, 0)
    world.make(record)
    assert not world.table.pages.must_be_owned(record.slot), "its rows go to a page that nobody else has"
    assert world.capacity.copies([record]) == []
