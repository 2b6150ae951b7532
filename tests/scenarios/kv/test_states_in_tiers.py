"""States of recurrent layers outside of the slots: behind blocks, in memory and on disk, and of one fate with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from runtime.kv.blocks import BLOCK_TOKENS, state_key
from runtime.step.transfer import LoadState, SaveState, Transfer
from tests.fakes.kv_simulation import KVSimulation, Truth, block_file, fresh, open_settled_disk, text
from tests.fakes.simulation import ask, simulated
from tests.scenarios.engine.together import STEP
from tests.scenarios.kv.test_states import CHUNK, LONG, recurrent

KEPT = 384  # tokens of whole blocks in `LONG`


def kept_states(sim: KVSimulation, tokens: list[int]) -> list[int]:
    """The lengths of a sequence at which some tier has a state."""
    names = {(n + 1) * BLOCK_TOKENS: state_key(key) for n, key in enumerate(sim.keys(tokens))}
    return [length for length, name in names.items() if name in sim.cache.tiers]


@simulated()
async def test_what_left_its_slot_goes_on_from_the_last_state_behind_a_block() -> None:
    async with recurrent(ram=100) as sim:
        await sim.client(ask("a", LONG, max_tokens=5))
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", LONG, max_tokens=5))
        assert again.finished().cached_tokens == KEPT
        assert again.tokens() == sim.model.continuation(LONG, 5)


@simulated()
async def test_blocks_without_a_state_behind_them_serve_nobody() -> None:
    async with recurrent(ram=100) as sim:
        await sim.client(ask("a", LONG))
        await sim.settle()
        kept = kept_states(sim, LONG)
        sim.evict()
        with sim.as_manager():
            for length in kept[1:]:
                sim.ram.drop(state_key(sim.keys(LONG)[length // BLOCK_TOKENS - 1]))
        again = await sim.client(ask("again", LONG))
        assert again.finished().cached_tokens == kept[0] < KEPT


@simulated()
async def test_states_are_few_and_far_apart_but_for_the_end() -> None:
    """A state may be as large as many blocks: one that saves fewer rows than a block is not kept."""
    async with recurrent(ram=100, more=3) as sim:
        await sim.client(ask("a", LONG))
        await sim.settle()
        kept = kept_states(sim, LONG)
        assert kept[-1] == KEPT
        assert len(kept) < len(LONG) // CHUNK


@simulated()
async def test_a_long_answer_leaves_states_behind_its_blocks() -> None:
    async with recurrent(ram=100, burst_seconds=0.05) as sim:
        story = await sim.client(ask("a", text(40, 3), max_tokens=200))
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", [*sim.whole(story), *text(20, 4)]))
        assert again.finished().cached_tokens == 192


@simulated()
async def test_a_prompt_that_was_hung_up_on_goes_on_after_its_slot_was_taken() -> None:
    async with recurrent(ram=100) as sim:
        await sim.client(ask("a", LONG), hang_up_at=6.5 * STEP)
        read = len(sim.manager.table.slot(0).tokens)
        await sim.client(ask("other", text(300, 8)))
        again = await sim.client(ask("again", LONG))
        assert read - CHUNK - BLOCK_TOKENS < again.finished().cached_tokens <= read


@simulated()
async def test_chunks_end_with_blocks_so_that_all_that_was_read_can_be_kept() -> None:
    async with recurrent(ram=100, chunk_tokens=100) as sim:
        victim = await sim.client(ask("victim", LONG), hang_up_at=4.5 * STEP)
        (receipt,) = victim.receipts
        assert receipt.kept_tokens == 4 * BLOCK_TOKENS
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", LONG))
        assert again.finished().cached_tokens == receipt.kept_tokens


@simulated()
async def test_a_chunk_takes_an_eighth_more_to_end_with_a_block_and_not_another_step() -> None:
    async with recurrent(chunk_tokens=114) as sim:
        await sim.client(ask("a", LONG[:320], max_tokens=1))
        assert sorted(sim.manager.table.slot(0).states)[:2] == [128, 256]


@simulated()
async def test_what_a_grant_displaces_is_copied_out_before_it_is_written_to() -> None:
    async with recurrent(ram=100, more=8) as sim:
        await sim.client(ask("a", LONG))
        await sim.client(ask("b", text(200, 7)))  # at once: nothing was copied out while nobody worked
        assert kept_states(sim, LONG)[-1:] == [KEPT]
        assert not sim.manager.table.slot(0).displaced


@simulated()
async def test_two_that_come_back_at_a_time_have_a_state_each() -> None:
    async with recurrent(slots=2, ram=100) as sim:
        prompts = [text(400, n) for n in range(2)]
        for n, ids in enumerate(prompts):
            await sim.client(ask(f"r{n}", ids))
        await sim.settle()
        sim.evict()
        stories = [sim.expect(ask(f"again {n}", ids)) for n, ids in enumerate(prompts)]
        async with trio.open_nursery() as nursery:
            for story in stories:
                nursery.start_soon(sim.client, story.asked)
        assert [story.finished().cached_tokens for story in stories] == [KEPT] * 2


@pytest.mark.parametrize("step", [3, 20])  # while its prompt is read, and after
@simulated()
async def test_who_is_preempted_has_its_last_tokens_and_its_state_kept(step: int) -> None:
    async with recurrent(ram=100, preemption="on", positions=1024) as sim:
        async with trio.open_nursery() as nursery:
            story = sim.expect(ask("old", LONG, max_tokens=40, priority=1))
            nursery.start_soon(sim.client, story.asked)
            await trio.sleep((step + 0.5) * STEP)
            await sim.client(ask("new", text(700, 2), max_tokens=10))  # needs the room of all that is retained
        assert sim.manager.preemption.resumes == 1
        assert sim.rows(story) == len(LONG)
        assert sim.ram.pinned == 0


@simulated()
async def test_states_survive_the_server(tmp_path: Path) -> None:
    folder, truth = fresh(tmp_path), Truth()
    with open_settled_disk(folder, states=True) as disk:
        async with recurrent(ram=0, disk=disk, truth=truth) as sim:
            await sim.client(ask("a", LONG))
            await sim.settle()
    with open_settled_disk(folder, states=True) as disk:
        async with recurrent(ram=100, disk=disk, truth=truth) as sim:
            again = await sim.client(ask("again", LONG))
            assert again.finished().cached_tokens == KEPT
            assert again.tokens() == sim.model.continuation(LONG, 4)


@simulated()
async def test_a_state_that_cannot_be_read_leaves_the_one_before_it(tmp_path: Path) -> None:
    folder, truth = fresh(tmp_path), Truth()
    with open_settled_disk(folder, states=True) as disk:
        async with recurrent(ram=0, disk=disk, truth=truth) as sim:
            await sim.client(ask("a", LONG))
            await sim.settle()
            sim.evict()
            before, last = kept_states(sim, LONG)[-2:]
            block = sim.disk.load(state_key(sim.keys(LONG)[last // BLOCK_TOKENS - 1]))
            assert block is not None
            block_file(folder, block).write_bytes(b"damaged")
            again = await sim.client(ask("again", LONG))
            assert again.finished().cached_tokens == before
            assert again.tokens() == sim.model.continuation(LONG, 4)


@pytest.mark.parametrize("kind", [SaveState, LoadState])
@simulated()
async def test_a_state_that_cannot_be_moved_costs_a_few_rows(kind: type[Transfer]) -> None:
    async with recurrent(ram=100) as sim:
        sim.faults.fails = lambda transfer: isinstance(transfer, kind)
        await sim.client(ask("a", LONG))
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", LONG))
        assert again.tokens() == sim.model.continuation(LONG, 4)
        assert again.finished().cached_tokens == 0


@simulated()
async def test_a_state_that_failed_in_use_is_dropped_at_once() -> None:
    async with recurrent(ram=100) as sim:
        await sim.client(ask("a", LONG))
        await sim.settle()
        sim.evict()
        sim.faults.cursed = True
        again = await sim.client(ask("again", LONG))
        assert again.tokens() == sim.model.continuation(LONG, 4)
        assert sim.cache.statistics().strikes > KEPT // BLOCK_TOKENS  # the blocks, and the state


@simulated()
async def test_an_audit_goes_on_from_the_state_before_and_finds_a_wrong_one() -> None:
    async with recurrent(ram=100, audit_share=1.0) as sim:
        await sim.client(ask("a", LONG))
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", LONG))
        before = again.finished().cached_tokens
        assert 0 < before < KEPT
        assert (sim.cache.statistics().audits, sim.cache.statistics().audit_failures) == (1, 0)
        await sim.settle()
        sim.evict()
        sim.let_blocks_lie()
        block = sim.ram.get(state_key(sim.keys(LONG)[before // BLOCK_TOKENS - 1]))
        assert block is not None
        block.data[0] ^= 1
        wrong = await sim.client(ask("wrong", LONG))
        assert wrong.tokens() == sim.model.continuation(LONG, 4)
        assert sim.cache.statistics().audit_failures == 1


@simulated()
async def test_owners_share_no_states() -> None:
    async with recurrent(ram=100, isolate_owners=True) as sim:
        await sim.client(ask("a", LONG, owner="red"))
        await sim.settle()
        sim.evict()
        again = await sim.client(ask("again", LONG, owner="blue"))
        assert again.finished().cached_tokens == 0
