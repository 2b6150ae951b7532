"""A model with a windowed layer, whose ring keeps little: what is there is used, what is lost is computed again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from runtime.kv.blocks import BLOCK_TOKENS
from runtime.step.transfer import Copy
from tests.fakes.kv_simulation import KVSimulation, fresh, open_kv_simulation, open_settled_disk, text, until
from tests.fakes.simulation import ask, simulated, windowed
from tests.scenarios.engine.together import STEP, same_time
from tests.scenarios.kv.sources import blocks_of

WINDOW, SLACK = 100, 150
RINGS = windowed(WINDOW, SLACK)
LONG = text(600, 1)  # more than twice what a ring holds


def prompt_rows(sim: KVSimulation, name: str) -> list[int]:
    """The rows of each step that ran for a request, before the first of a single row."""
    rows = [run.rows for step in sim.steps for run in step.runs if run.owner == (name, 0)]
    return rows[: rows.index(1)] if 1 in rows else rows


# --- the slot itself --------------------------------------------------------------------------------------------------


@simulated()
async def test_no_step_has_more_rows_of_a_prompt_than_the_ring_bears() -> None:
    async with open_kv_simulation(slots=2, rings=RINGS, chunk_tokens=512) as sim:
        await sim.client(ask("a", LONG, max_tokens=4))
        rows = prompt_rows(sim, "a")
        assert max(rows) == RINGS.max_rows
        assert sum(rows) == len(LONG)


@pytest.mark.parametrize(("forgets", "is_there"), [(0, True), (1, True), (SLACK - 4, True), (SLACK + 4, False)])
@simulated()
async def test_a_changed_end_goes_on_from_the_ring_or_is_read_from_the_start(forgets: int, is_there: bool) -> None:
    async with open_kv_simulation(slots=1, ram=0, rings=RINGS) as sim:
        first = await sim.client(ask("first", LONG, max_tokens=3))
        committed = sim.whole(first)[:-1]
        kept = committed[: len(committed) - forgets]
        again = await sim.client(ask("again", [*kept, 388, *text(20, 2)], max_tokens=3))
        assert again.finished().cached_tokens == (len(kept) if is_there else 0)


@simulated()
async def test_a_cancelled_prompt_goes_on_where_it_was() -> None:
    """C3: with rows of a chunk behind it in the ring that were not committed."""
    async with open_kv_simulation(slots=1, ram=0, rings=RINGS) as sim:
        for n in range(4):
            victim = await sim.client(ask(f"victim {n}", LONG), hang_up_at=trio.current_time() + 0.025)
            (receipt,) = victim.receipts
            resident = len(sim.manager.table.slot(0).tokens)
            assert resident == receipt.cached_tokens + receipt.kept_tokens
        last = await sim.client(ask("last", LONG, max_tokens=3))
        assert last.finished().cached_tokens == resident > WINDOW + SLACK


# --- tiers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["ram", "disk"])
@simulated()
async def test_a_conversation_goes_on_from_blocks_of_which_only_the_last_are_whole(source: str, tmp_path: Path) -> None:
    with open_settled_disk(fresh(tmp_path), windowed=True) as disk:
        async with open_kv_simulation(slots=1, disk=disk, rings=RINGS, piece=2) as sim:
            first = await sim.client(ask("first", LONG, max_tokens=8))
            await sim.settle()
            conversation = sim.whole(first)
            keys = sim.keys(conversation[:-1])
            whole = sim.cache.tiers.whole(keys)
            assert sim.cache.tiers.available(keys) == set(keys)
            assert whole == set(keys[-len(whole) :])
            assert WINDOW // BLOCK_TOKENS < len(whole) < len(keys)
            sim.evict(ram=source == "disk")
            again = await sim.client(ask("again", [*conversation, *text(30, 2)], max_tokens=8))
            assert again.finished().cached_tokens == blocks_of(len(conversation) - 1)
            assert sim.cache.hits[source] >= blocks_of(len(conversation) - 1)
            sim.check_disk()


@simulated()
async def test_a_prefix_whose_windows_were_lost_is_read_again_and_then_kept_whole(tmp_path: Path) -> None:
    shared = LONG[:300]
    with open_settled_disk(fresh(tmp_path), windowed=True) as disk:
        async with open_kv_simulation(slots=1, disk=disk, rings=RINGS) as sim:
            await sim.client(ask("long", LONG, max_tokens=1))
            await sim.settle()
            sim.evict()
            assert sim.reach(shared) == 0
            short = await sim.client(ask("short", [*shared, 5], max_tokens=1))
            assert short.finished().cached_tokens == 0
            await sim.settle()
            sim.evict()
            assert sim.reach(shared) == len(shared) // BLOCK_TOKENS
            again = await sim.client(ask("again", [*shared, 7], max_tokens=1))
            assert again.finished().cached_tokens == blocks_of(len(shared))
            sim.evict(ram=True)
            from_disk = await sim.client(ask("from disk", [*shared, 9], max_tokens=1))
            assert from_disk.finished().cached_tokens == blocks_of(len(shared))
            sim.check_disk()


@simulated()
async def test_where_a_block_of_the_end_is_lost_a_shorter_prefix_serves_if_its_end_is_whole() -> None:
    async with open_kv_simulation(slots=1, rings=windowed(WINDOW, 300)) as sim:
        first = await sim.client(ask("first", LONG, max_tokens=1))
        await sim.settle()
        keys = sim.keys(sim.whole(first)[:-1])
        sim.evict()
        with sim.as_manager():
            sim.ram.drop(keys[-1])
        again = await sim.client(ask("again", [*LONG, 5], max_tokens=1))
        assert again.finished().cached_tokens == (len(keys) - 1) * BLOCK_TOKENS


@simulated()
async def test_a_restore_that_breaks_off_before_its_end_leaves_what_the_slot_had() -> None:
    """Nothing is written to the ring before the last piece, so what was computed before is there for the retry."""
    async with open_kv_simulation(slots=1, rings=RINGS, piece=1, block_seconds=0.05) as sim:
        first = await sim.client(ask("first", LONG, max_tokens=8))
        await sim.settle()
        sim.evict()
        await sim.client(ask("start", [*LONG[:200]], max_tokens=1))
        had = len(sim.manager.table.slot(0).tokens)
        await sim.settle()
        victim = sim.expect(ask("victim", sim.whole(first)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, victim.asked)
            await until(lambda: sim.manager.table.slot(0).staged > had)
            victim.connection.cancel()
        slot = sim.manager.table.slot(0)
        assert (len(slot.tokens), slot.staged) == (had, 0)
        again = await sim.client(ask("again", [*LONG[:had], 5], max_tokens=2))
        assert again.finished().cached_tokens == had


@simulated()
async def test_an_audit_compares_what_the_ring_still_has() -> None:
    async with open_kv_simulation(slots=1, rings=RINGS, audit_share=1.0) as sim:
        first = await sim.client(ask("first", LONG, max_tokens=8))
        await sim.settle()
        for tail in (5, 200):  # after which the audited block is in the ring, and is not
            sim.evict()
            again = await sim.client(ask(f"again {tail}", [*sim.whole(first), *text(tail, 2)], max_tokens=1))
            assert again.finished().cached_tokens == blocks_of(len(sim.whole(first)) - 1) - BLOCK_TOKENS
            await sim.settle()
        statistics = sim.cache.statistics()
        assert (statistics.audits, statistics.audit_failures) == (2, 0)


# --- other slots ------------------------------------------------------------------------------------------------------


@simulated()
async def test_a_prefix_is_copied_from_a_slot_whose_ring_still_has_its_end() -> None:
    async with open_kv_simulation(slots=2, ram=0, rings=RINGS, piece=1) as sim, trio.open_nursery() as nursery:
        holder = sim.expect(ask("holder", LONG, max_tokens=200))
        nursery.start_soon(sim.client, holder.asked)
        await until(lambda: len(holder.events) > 5)
        other = await sim.client(ask("other", [*LONG[:-3], 5], max_tokens=5))
        assert other.finished().cached_tokens == len(LONG) - 3
        copies = [transfer for transfer in sim.watch.transfers if isinstance(transfer, Copy)]
        assert [(copy.start, copy.end, copy.least is None) for copy in copies] == [
            ((len(LONG) - 3) // 64 * 64, len(LONG) - 3, False)
        ]
        nursery.cancel_scope.cancel()


@simulated()
async def test_a_prefix_is_not_copied_from_a_slot_whose_ring_has_lost_its_end() -> None:
    async with open_kv_simulation(slots=2, ram=0, rings=RINGS) as sim, trio.open_nursery() as nursery:
        holder = sim.expect(ask("holder", LONG, max_tokens=200))
        nursery.start_soon(sim.client, holder.asked)
        await until(lambda: len(holder.events) > 5)
        other = await sim.client(ask("other", [*LONG[:300], 5], max_tokens=5))
        assert other.finished().cached_tokens == 0
        assert not any(isinstance(transfer, Copy) for transfer in sim.watch.transfers)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("step", range(8))
@simulated()
async def test_what_is_copied_out_of_a_slot_goes_before_what_its_ring_loses_it_for(step: int) -> None:
    """The slot in the middle gives its beginning to one while it is given more by another: once, both last pieces."""
    begin, rings = LONG[:130], windowed(2, 128)
    async with (
        open_kv_simulation(slots=3, ram=0, rings=rings, piece=1, step_seconds=same_time) as sim,
        trio.open_nursery() as nursery,
    ):
        holder = sim.expect(ask("holder", LONG, max_tokens=200))
        nursery.start_soon(sim.client, holder.asked)
        nursery.start_soon(sim.client, ask("busy", text(20, 8), max_tokens=200))
        await until(lambda: len(holder.events) > 5)
        await sim.client(ask("resident", [*begin, 7], max_tokens=2))
        middle = sim.expect(ask("middle", [*LONG, 8], max_tokens=4))
        nursery.start_soon(sim.client, middle.asked)
        await trio.sleep(step * STEP)
        assert sim.engine.cancel("busy")
        last = await sim.client(ask("last", [*begin, *text(50, 9)], max_tokens=4))
        await until(lambda: middle.ended)
        assert middle.finished().cached_tokens == len(LONG)
        assert last.finished().cached_tokens in (0, len(begin))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("piece", [1, 100])
@simulated(seeds=4)
async def test_four_answers_to_one_prompt_read_it_once(piece: int) -> None:
    async with open_kv_simulation(slots=4, ram=0, rings=RINGS, piece=piece) as sim:
        story = await sim.client(ask("four", *[LONG] * 4, max_tokens=6))
        rows = sum(run.rows for step in sim.steps for run in step.runs if run.computed)
        assert rows < len(LONG) + 4 * (6 + 1)
        assert all(len(story.tokens(index)) == 6 for index in range(4))


@simulated(seeds=4)
async def test_a_shared_beginning_is_read_once_where_a_copy_of_it_is_one_piece() -> None:
    """The one who reads it goes on for long behind it: the copy goes before the second step of that."""
    async with open_kv_simulation(slots=2, ram=0, rings=RINGS, piece=100) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", [*LONG[:300], *text(400, 5)], max_tokens=2))
        second = await sim.client(ask("second", [*LONG[:300], 7], max_tokens=2), arrives=0.001)
        assert second.finished().cached_tokens == 300


@simulated(seeds=4)
async def test_nobody_waits_for_a_beginning_that_could_not_be_copied() -> None:
    async with open_kv_simulation(slots=2, ram=0, rings=RINGS, piece=1) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", [*LONG[:300], *text(400, 5)], max_tokens=2))
        second = sim.expect(ask("second", [*LONG[:300], 7], max_tokens=2))
        nursery.start_soon(partial(sim.client, second.asked, arrives=0.001))
        await until(lambda: any(run.owner == ("second", 0) for step in sim.steps for run in step.runs))
        began = next(step for step in sim.steps if any(run.owner == ("second", 0) for run in step.runs))
        assert max(run.start for run in began.runs) < 300
