"""A sequence on its way to another place: nobody reads it, all that it has goes with it, and it is moved for one.

What is read or written of it is watched by I22 of `tests.sim.invariants` at each transfer, and by I3 after each step.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.core.slot_views import SlotStatus
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import ask, simulated, windowed


def slot_of(sim: KVSimulation, request_id: str) -> SlotStatus | None:
    """The slot of a request that runs."""
    return next((slot for slot in sim.engine.slots() if slot.request_id == request_id), None)


def has_room(sim: KVSimulation, request_id: str) -> bool:
    """Return whether a request has a slot, and a place in the arena."""
    slot = slot_of(sim, request_id)
    return slot is not None and slot.capacity > 0


def has_tokens(sim: KVSimulation, request_id: str) -> bool:
    """Return whether some of a request's prompt was read."""
    slot = slot_of(sim, request_id)
    return slot is not None and slot.tokens > 0


def is_on_its_way(sim: KVSimulation, slot: int) -> bool:
    """Return whether that slot's sequence is being moved."""
    return sim.manager.statistics().arena.moving == slot


@simulated()
async def test_blocks_are_not_copied_out_of_it() -> None:
    """Somebody's blocks wait to be kept when room is made where it lies: they are kept when it is there."""
    async with open_kv_simulation(slots=3, context=768, positions=768, piece=1) as sim:
        await sim.client(ask("before", text(200, 1), max_tokens=1))
        await sim.settle()
        kept = await sim.client(ask("kept", text(200, 2), max_tokens=1))
        (slot,) = (slot.id for slot in sim.engine.slots() if slot.origin)
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("wide", text(400, 3), max_tokens=4))
            await until(lambda: is_on_its_way(sim, slot))
            assert sim.cache.waiting.any_of(slot)
        await sim.settle()
        assert sim.reach(kept.asked.prompts[0]) == 3


@simulated()
async def test_its_prefix_is_not_copied() -> None:
    """Who shares it waits for the copy until it is there."""
    async with open_kv_simulation(slots=4, context=768, positions=1152, piece=1) as sim:
        await sim.client(ask("before", text(200, 1), max_tokens=1))
        await sim.settle()
        async with trio.open_nursery() as clients:
            first = sim.expect(ask("first", text(300, 2), max_tokens=150))
            clients.start_soon(sim.client, first.asked)
            await until(lambda: bool(first.events))
            shares = sim.expect(ask("shares", [*text(300, 2), 1], max_tokens=4))
            clients.start_soon(sim.client, shares.asked)
            await until(lambda: (slot := slot_of(sim, "shares")) is not None and slot.tokens > 0)
            clients.start_soon(sim.client, ask("wide", text(280, 3), max_tokens=4))
            source = slot_of(sim, "first")
            assert source is not None
            await until(lambda: is_on_its_way(sim, source.id))
            copy = slot_of(sim, "shares")
            assert copy is not None
            assert copy.tokens < 256, "the copy is not at its end yet"
        assert shares.finished().cached_tokens == 300


@simulated()
async def test_what_is_restored_of_it_goes_with_it() -> None:
    """With windowed layers its tokens count when all pieces are there; the rows of the first are there before."""
    async with open_kv_simulation(slots=3, context=768, positions=960, piece=1, rings=windowed(70, 128)) as sim:
        whole = text(600, 2)
        await sim.client(ask("long ago", whole, max_tokens=1))
        await sim.settle()
        sim.evict()
        await sim.client(ask("before", text(200, 1), max_tokens=1))
        await sim.settle()
        async with trio.open_nursery() as clients:
            again = sim.expect(ask("again", [*whole, 1], max_tokens=4))
            clients.start_soon(sim.client, again.asked)
            await until(lambda: any(slot.staged for slot in sim.manager.table))
            clients.start_soon(sim.client, ask("wide", text(280, 3), max_tokens=4))
            slot = slot_of(sim, "again")
            assert slot is not None
            await until(lambda: is_on_its_way(sim, slot.id))
            assert sim.manager.table.slot(slot.id).staged
            assert not sim.manager.table.slot(slot.id).tokens
        assert sim.rows(again) < 64


@simulated()
async def test_who_comes_later_takes_no_place_before_whom_it_is_moved_for() -> None:
    """A short prompt would fit into a gap at once: gaps are for the one who has waited longest."""
    async with open_kv_simulation(slots=4, context=768, positions=768, piece=1) as sim:
        await sim.client(ask("before", text(200, 1), max_tokens=1))
        await sim.client(ask("between", text(200, 2), max_tokens=1))
        await sim.settle()
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("wide", text(400, 3), max_tokens=4))
            await until(lambda: sim.manager.statistics().arena.moving is not None)
            assert not has_room(sim, "wide")
            clients.start_soon(sim.client, ask("late", text(20, 4), max_tokens=4))
            await until(lambda: has_room(sim, "late"))
            assert has_room(sim, "wide")


@simulated()
async def test_it_is_moved_at_once_where_no_step_can_run_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two come back: the first has room when the second's turn comes, for whom it is moved; a third waits for both."""
    lesser = (("third", 30, 20, 40), ("second", 20, 300, 20), ("first", 10, 300, 20))
    async with open_kv_simulation(slots=3, context=640, positions=640, ram=0, state_buffers=40) as sim:
        monkeypatch.setattr(sim.cache, "can_set_aside", lambda tokens: True)  # and yet nothing is to be copied
        async with trio.open_nursery() as clients:
            for name, priority, length, tokens in lesser:
                asked = ask(name, text(length, priority), max_tokens=tokens, priority=priority)
                clients.start_soon(sim.client, asked)
                await until(partial(has_tokens, sim, name))
            await sim.client(ask("important", text(300, 1), max_tokens=60))
            assert sim.manager.statistics().parks == 3
