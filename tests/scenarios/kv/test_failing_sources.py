"""Sources of KV that change, fail or go away while they are copied from."""

from __future__ import annotations

import pytest
import trio

from actors.core.commands import CopyPrefix
from actors.core.observer import Observers
from actors.core.slot_views import Provenance
from actors.core.slots import SlotTable
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from actors.kv.restore import LiveSource, Restoration
from actors.kv.transfer_planner import TransferPlanner
from runtime.kv.token_chain import TokenChain
from runtime.step.transfer import Copy, Load
from tests.fakes.holds import record_of
from tests.fakes.kv_simulation import BLOCK_BYTES, ROOT, open_kv_simulation, text, until
from tests.fakes.simulation import ask, simulated
from tests.scenarios.kv.sources import OTHER, SYSTEM

PIECE = 2  # blocks, as `open_kv_simulation` says


@simulated()
async def test_a_copy_that_always_fails_is_not_tried_for_ever_and_the_prompt_computed() -> None:
    async with open_kv_simulation(slots=2, ram=0) as sim, trio.open_nursery() as nursery:
        sim.faults.fails = lambda transfer: isinstance(transfer, Copy)
        nursery.start_soon(sim.client, ask("holder", SYSTEM, max_tokens=60))
        await trio.sleep(0.1)
        with trio.move_on_after(100) as scope:
            story = await sim.client(ask("second", SYSTEM + OTHER))
        assert not scope.cancelled_caught, "it is tried for ever"
        assert story.finished().cached_tokens == 0
        assert sum(isinstance(transfer, Copy) for transfer in sim.watch.transfers) <= 2


@simulated()
async def test_a_move_that_fails_is_a_line_of_the_request_that_wanted_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is the slot manager's task that says so, to which no request is bound."""
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("first", text(400, 1)))
        await sim.settle()
        sim.evict()
        sim.faults.fails = lambda transfer: isinstance(transfer, Load)
        await sim.client(ask("second", text(400, 1)))
    lines = [record for record in caplog.records if "could not be moved" in record.getMessage()]
    assert lines
    assert {vars(line)["request_id"] for line in lines} == {"second"}
    assert all("request second" in line.getMessage() for line in lines)


@simulated()
async def test_a_load_that_fails_takes_nothing_with_it_that_was_resident() -> None:
    """The block begins before the end of what is resident, and a load that breaks off leaves garbage."""
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(400, 1)))
        await sim.settle()
        (slot,) = sim.manager.table.free
        with sim.as_manager():
            sim.manager.table.trim(slot, 150)
        sim.faults.fails = lambda transfer: isinstance(transfer, Load)
        story = await sim.client(ask("second", sim.whole(first)[:380]))
        assert story.finished().cached_tokens in (128, 150)


@pytest.mark.parametrize("change", ["nothing", "other tokens before", "shorter", "under suspicion", "restored"])
def test_a_source_that_has_changed_when_the_copys_turn_comes_is_not_copied(change: str) -> None:
    """It may hold the same tokens at the same places, but others before them."""
    shared, same = text(64, 1), text(200, 2)
    cache = PrefixCache(ROOT, BLOCK_BYTES, ram=0, config=CacheConfig(piece_bytes=PIECE * BLOCK_BYTES))
    table = SlotTable(2, 1000, root=ROOT)
    source, slot = (table.grant((name, 0), TokenChain(ROOT, [0])) for name in ("source", "reader"))
    assert source is not None
    assert slot is not None
    assert table.pages.give(source, 300, 300)
    assert table.pages.give(slot, 300, 300)
    table.commit_transferred(source, shared + same, Provenance(stands_on={b"a block": 0}))
    table.commit(slot, shared)
    rest = same[:100] if change == "restored" else same
    reader = record_of("reader", shared + rest + text(10, 3), slot, table.owner)
    found = Restoration(reader.hold, table, cache).next_source()
    assert isinstance(found, LiveSource)
    assert (found.slot, found.end) == (source, 64 + len(rest))
    match change:
        case "other tokens before":
            table.trim(source, 0)
            table.commit(source, text(64, 4) + same)
        case "shorter":
            table.trim(source, 100)
        case "under suspicion":
            table.quarantine([b"a block"])
        case "restored":  # and so only in whole blocks
            table.trim(source, 64)
            table.commit_transferred(source, same, Provenance(restored_to=192))
    copy = CopyPrefix(reader.hold.ticket, source.id, found.end)
    reader.ask(copy)
    planned = TransferPlanner(table, cache, Observers()).plan(reader)
    if change == "nothing":
        assert planned is not None
        assert planned.transfers == [Copy(source.id, slot.id, 256, 264, 0, source.pages, slot.pages)]
        assert slot.pages.pages[1:4] == source.pages.pages[1:4], "what is before is shared"
    else:
        assert planned is None
        assert copy.reply.value is True, "there may be another source"


@simulated()
async def test_a_source_that_is_granted_to_another_while_it_is_copied_hands_on_what_it_stands_on() -> None:
    async with open_kv_simulation(slots=2) as sim, trio.open_nursery() as nursery:
        await sim.client(ask("source", text(800, 1)))
        await sim.settle()
        source = next(slot for slot in sim.manager.table.free if slot.tokens)
        keys = sim.keys(text(800, 1)[:128])
        with sim.as_manager():
            sim.manager.table.commit_transferred(source, (), Provenance(keys, dict.fromkeys(keys, 0)))
        reader = sim.expect(ask("reader", text(800, 1)[:120] + text(20, 2), max_tokens=30))
        nursery.start_soon(sim.client, reader.asked)
        await until(lambda: sim.watch.is_moving)
        nursery.start_soon(sim.client, ask("newcomer", text(100, 3), max_tokens=30))
        await until(lambda: source.owner == ("newcomer", 0))
        assert sim.watch.is_moving
        record = sim.manager.holds.get(("reader", 0))
        assert record is not None
        await until(lambda: not sim.watch.is_moving)
        assert (record.ledger.cached, record.slot.trial, set(record.slot.stands_on)) == (120, keys, set(keys))


@simulated()
async def test_the_neighbours_wait_for_one_piece_of_each_at_most() -> None:
    block_seconds, decode = 0.01, 0.0042
    async with open_kv_simulation(slots=3, block_seconds=block_seconds, chunk_tokens=32) as sim:
        await sim.client(ask("first", text(900, 1), max_tokens=2))
        await sim.client(ask("second", text(900, 2), max_tokens=2))
        await sim.settle()
        sim.evict()
        async with trio.open_nursery() as nursery:
            neighbour = sim.expect(ask("neighbour", text(20, 3), max_tokens=150))
            nursery.start_soon(sim.client, neighbour.asked)
            await trio.sleep(0.05)
            # Two restore fourteen blocks each, and their slots' own blocks are saved before that.
            nursery.start_soon(sim.client, ask("again", text(900, 1), max_tokens=2))
            await sim.client(ask("and again", text(900, 2), max_tokens=2))
            await sim.client(ask("stranger", text(900, 4), max_tokens=2))
        gaps = [later - sooner for sooner, later in zip(neighbour.times, neighbour.times[1:], strict=False)]
        assert len(neighbour.times) == 151
        assert sum(isinstance(transfer, Load) for transfer in sim.watch.transfers) == 28
        assert max(gaps) <= 2 * PIECE * block_seconds + 2 * decode + 0.0032 + 1e-6
