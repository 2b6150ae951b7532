"""Retained places: who of those who are preempted has which, and what is exchanged for it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import trio

from actors.core.events import Exchanged
from actors.core.observer import Observer, Observers
from actors.core.slot_views import GenerationKey, SlotView
from actors.core.slots import SlotTable
from actors.kv.waiting_blocks import WaitingBlocks
from actors.preemption.retained_places import RetainedPlaces
from runtime.common.ownership import NotTheOwner, TaskOwner
from runtime.kv.pages import in_one_piece
from runtime.kv.rings import Rings
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import text
from tests.fakes.simulation import simulated
from tests.sim.history import ROOT

A, B, C = ("a", 0), ("b", 0), ("c", 0)


class Seen(Observer):
    """Record of what was exchanged."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def exchanged(self, event: Exchanged) -> None:
        """Note it."""
        self.pairs.append((event.slot, event.retained))


class World:
    """Slots that are granted and left, and as many retained places."""

    def __init__(self, slots: int) -> None:
        self.owner = TaskOwner()
        self.table = SlotTable(slots, 512, retained_places=slots, root=ROOT, owner=self.owner)
        self.waiting = WaitingBlocks(self.owner)
        self.observers = Observers()
        self.retained_places = RetainedPlaces(self.table, self.waiting, self.observers)
        self.preempted: set[GenerationKey] = set()

    def run(self, key: GenerationKey, tokens: list[int]) -> SlotView:
        """Grant a slot, and let it have the tokens' KV."""
        slot = self.table.grant(key, TokenChain(ROOT, tokens))
        assert slot is not None
        assert self.table.pages.give(slot, len(tokens), len(tokens)) or slot.capacity >= len(tokens)
        self.table.commit(slot, tokens[len(slot.tokens) :])
        return slot

    def preempt(self, key: GenerationKey, tokens: list[int]) -> SlotView:
        """Let it run, and put in a retained place what it leaves; returns the slot where that was."""
        slot = self.run(key, tokens)
        self.table.release(slot)
        resident = slot.resident()
        self.waiting.put(slot.id, resident, range(len(resident.tokens.keys)))
        self.preempted.add(key)
        self.retained_places.put(key, slot)
        return slot

    def leave(self, key: GenerationKey) -> None:
        """Let one that was preempted have ended."""
        self.preempted.remove(key)
        self.retained_places.leave(key)

    def take(self, key: GenerationKey, prompt: list[int]) -> None:
        """Let a slot have what serves such a prompt best."""
        self.retained_places.take(key, TokenChain(ROOT, [*prompt, 7]), reuse=True, session=None)

    def check(self) -> None:
        """Look whether all agree."""
        self.table.check_integrity()
        self.table.pages.check_integrity()
        self.retained_places.check_integrity(self.preempted)


@simulated(seeds=1)
async def test_what_one_leaves_is_in_a_retained_place_in_the_pages_where_it_was_and_its_slot_is_empty() -> None:
    world, seen = World(1), Seen()
    with world.observers.including(seen):
        slot = world.preempt(A, text(150, 1))
    retained = world.retained_places.of(A)
    assert retained is world.table.slot(1)
    assert (retained.tokens[:], retained.pages) == (text(150, 1), in_one_piece(192))
    assert (len(slot.tokens), slot.capacity) == (0, 0)
    assert [block.start for block in world.waiting.of(retained.id)] == [0, 64]
    assert not world.waiting.any_of(slot.id)
    assert retained.held_until == math.inf, "it is evicted last"
    assert seen.pairs == [(0, 1)]
    world.check()


@simulated(seeds=1)
async def test_a_slot_has_it_again_and_the_retained_place_what_was_in_the_slot() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    other = world.run(B, text(80, 2))
    world.table.release(other)
    world.take(A, text(150, 1))
    assert world.retained_places.of(A) is None
    slot, retained = world.table.slot(0), world.table.slot(1)
    assert (slot.tokens[:], retained.tokens[:]) == (text(150, 1), text(80, 2))
    assert (slot.pages, retained.pages) == (in_one_piece(192), in_one_piece(128, 3))
    assert world.waiting.any_of(slot.id)
    assert slot.held_until == 0.0, "it is held for nobody, should it be another slot that is granted"
    assert world.table.grant(A, TokenChain(ROOT, [*text(150, 1), 7])) is slot
    assert len(slot.tokens) == 150, "all of it is there"
    world.preempted.clear()
    world.check()


@simulated(seeds=1)
async def test_a_block_on_its_way_out_is_known_where_what_it_was_in_has_come() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    (first, second) = (block for _, block in world.waiting.take([1], 2, unless=lambda *_: False))
    assert (world.waiting.taken_from(first), world.waiting.taken_from(second)) == (1, 1)
    world.take(A, text(150, 1))
    assert (world.waiting.taken_from(first), world.waiting.taken_from(second)) == (0, 0)
    world.waiting.forget(0)
    assert world.waiting.taken_from(first) is None, "what it was in is not trusted any more"
    assert not world.waiting.any_of(0)


@simulated(seeds=1)
async def test_it_is_exchanged_with_the_slot_whose_resident_is_wanted_least() -> None:
    world = World(3)
    world.preempt(A, text(150, 1))
    for key, length in ((B, 200), (C, 10), (("d", 0), 100)):
        world.run(key, text(length, length))
    for slot in world.table.held:
        world.table.release(slot)
    (least,) = [slot for slot in world.table.free if len(slot.tokens) == 10]
    world.take(A, text(150, 1))
    assert len(least.tokens) == 150
    world.check()


@simulated(seeds=1)
async def test_nobody_has_the_retained_place_of_another_who_is_preempted() -> None:
    world = World(2)
    world.preempt(A, text(70, 1))
    world.preempt(B, text(80, 2))
    slot = world.preempt(C, text(90, 3))
    assert world.retained_places.of(C) is None, "there is no third retained place"
    assert len(slot.tokens) == 90, "so it stays where it was"
    retained_places = world.retained_places.of(A), world.retained_places.of(B)
    assert [retained and len(retained.tokens) for retained in retained_places] == [70, 80]
    world.leave(A)
    world.preempt(("d", 0), text(100, 4))
    assert len(world.table.slot(2).tokens) == 100, "it has the retained place that was left"
    assert world.retained_places.of(A) is None
    world.check()


@simulated(seeds=1)
async def test_what_one_has_left_is_a_resident_like_any_other() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    world.leave(A)
    retained = world.table.slot(1)
    assert (len(retained.tokens), retained.held_until) == (150, 0.0)
    found = world.table.longest_live_prefix(TokenChain(ROOT, text(150, 1)), limit=149, besides=None)
    assert found == (retained, 149), "whoever reads it already has it copied"
    world.take(B, text(150, 1))
    slot = world.table.slot(0)
    assert (len(slot.tokens), len(retained.tokens)) == (150, 0), "and whoever begins has it in its slot"
    assert world.waiting.any_of(slot.id)
    world.check()


@simulated(seeds=1)
async def test_the_slot_has_what_serves_best_or_is_wanted_least() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    world.leave(A)
    world.table.release(world.run(B, text(100, 2)))
    retained = world.table.slot(1)
    world.take(C, text(100, 2))
    assert len(retained.tokens) == 150
    world.take(C, text(50, 3))
    assert len(retained.tokens) == 100, "it is wanted more, for it was used last"
    world.check()


@simulated(seeds=1)
async def test_nobody_else_is_given_what_is_kept_for_one_who_is_preempted() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    world.take(B, text(150, 1))
    retained = world.retained_places.of(A)
    assert retained is not None
    assert len(retained.tokens) == 150
    world.check()


@simulated(seeds=1)
async def test_whose_room_was_wanted_has_no_retained_place_and_others_have_it() -> None:
    world = World(1)
    world.preempt(A, text(150, 1))
    retained = world.table.slot(1)
    world.table.evict(retained)
    assert world.retained_places.of(A) is None
    world.take(A, text(150, 1))
    world.preempt(B, text(70, 2))
    assert world.retained_places.of(B) is retained
    assert world.retained_places.of(A) is None
    world.retained_places.leave(A)
    assert retained.held_until == math.inf, "it is the other's"
    world.check()


@simulated(seeds=1)
async def test_a_slot_that_is_held_is_not_exchanged() -> None:
    world = World(2)
    slot = world.run(A, text(70, 1))
    with pytest.raises(AssertionError, match="slot 0 is held"):
        world.table.exchange(slot, world.table.slot(2))
    with pytest.raises(AssertionError, match="place 0 is held"):
        world.table.exchange(world.table.slot(1), slot)


@simulated(seeds=1)
async def test_a_retained_place_that_is_kept_for_one_who_has_gone_is_found() -> None:
    world = World(1)
    world.preempt(A, text(70, 1))
    with pytest.raises(AssertionError, match="is not preempted, and has a retained place"):
        world.retained_places.check_integrity(())


@simulated(seeds=1)
@pytest.mark.parametrize("change", ["put", "take", "leave"])
async def test_nobody_else_changes_them(change: str) -> None:
    world = World(1)
    slot = world.table.slot(0)
    changes: dict[str, Callable[[], None]] = {
        "put": lambda: world.retained_places.put(A, slot),
        "take": lambda: world.take(A, [1]),
        "leave": lambda: world.retained_places.leave(A),
    }

    async def other() -> None:
        with pytest.raises(NotTheOwner):
            changes[change]()

    with world.owner.claim():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)


def test_where_layers_have_rings_there_are_no_retained_places() -> None:
    with pytest.raises(AssertionError, match="rings"):
        SlotTable(1, 512, retained_places=1, rings=Rings((64, None), 128))
