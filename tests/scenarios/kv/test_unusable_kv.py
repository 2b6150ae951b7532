"""KV that loads well, passes every check, and cannot be used (seed 4).

Whatever the failure, the client gets its whole answer from the one request, the blocks are out of both tiers before
it has its first token, and nobody meets them again.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import trio

from actors.core.slot_views import SlotView
from actors.core.slots import SlotTable
from runtime.errors import StepFailed
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.step.transfer import Load, Transfer
from tests.fakes.kv_simulation import (
    KVSimulation,
    Truth,
    fresh,
    open_kv_simulation,
    open_settled_disk,
    text,
    until,
)
from tests.fakes.simulation import Story, ask, simulated
from tests.scenarios.kv.cursed import BLOCKS, PROMPT, warm

FAILURES = ["raises", "not finite", "load raises"]


def curse(sim: KVSimulation, failure: str) -> None:
    sim.faults.cursed = failure == "raises"
    sim.faults.cursed_not_finite = failure == "not finite"
    sim.faults.fails = lambda transfer: failure == "load raises" and isinstance(transfer, Load)


def lift(sim: KVSimulation) -> None:
    curse(sim, "nothing")


def has_begun(story: Story) -> bool:
    return bool(story.events)


def runs(sim: KVSimulation, story: Story) -> int:
    """Steps that this request was in."""
    return sum(run.owner == (story.asked.id, 0) for step in sim.steps for run in step.runs)


@pytest.mark.parametrize("tiers", [("ram",), ("disk",), ("ram", "disk")])
@pytest.mark.parametrize("failure", FAILURES)
@simulated()
async def test_one_invalidation_and_they_are_out(failure: str, tiers: tuple[str, ...], tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    async with warm(folder, *tiers) as sim, trio.open_nursery() as nursery:
        curse(sim, failure)
        story = sim.expect(ask("client", PROMPT + text(20, 2), max_tokens=30))
        nursery.start_soon(sim.client, story.asked)
        await until(partial(has_begun, story))
        struck = 2 if failure == "load raises" else BLOCKS  # the first piece did not get in, so the rest was not tried
        assert all(key not in sim.cache.tiers for key in sim.keys(PROMPT)[:struck])
        assert sim.cache.statistics().strikes == struck
        assert len(list(folder.glob("*/*.safetensors"))) == (0 if "disk" not in tiers else BLOCKS - struck)
        lift(sim)
        await until(lambda: story.ended)

        assert len(story.tokens()) == 30
        finished = story.finished()
        assert (finished.cached_tokens, finished.timings.prompt_n) == (0, len(PROMPT) + 20)
        assert not story.receipts
        assert sim.rows(story) == len(PROMPT) + 20
        assert runs(sim, story) <= 1 + 10 + 29  # the one that failed, ten chunks, decoding
        assert sim.engine.health() is None


@pytest.mark.parametrize("failure", FAILURES)
@simulated()
async def test_the_next_request_is_a_clean_miss_and_the_one_after_it_a_hit(failure: str, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk") as sim:
        curse(sim, failure)
        tokens = PROMPT if failure == "load raises" else PROMPT[:130]
        first = await sim.client(ask("first", tokens, max_tokens=1))
        loads = sum(isinstance(transfer, Load) for transfer in sim.watch.transfers)
        assert loads > 0
        assert len(first.tokens()) == 1
        sim.evict(ram=True, disk=True)  # and what was kept of the clean computation
        second = await sim.client(ask("second", PROMPT))
        assert (second.finished().cached_tokens, sim.rows(second)) == (0, len(PROMPT))
        assert loads == sum(isinstance(transfer, Load) for transfer in sim.watch.transfers)
        lift(sim)
        await sim.settle()
        sim.evict()
        third = await sim.client(ask("third", PROMPT))
        assert third.finished().cached_tokens == BLOCKS * BLOCK_TOKENS
        sim.check_disk()


@pytest.mark.parametrize("failure", ["raises", "not finite"])
@simulated()
async def test_what_failed_does_not_come_back_with_a_restart(failure: str, tmp_path: Path) -> None:
    """The loop of the report: a server that is killed and started again met the same entry each time."""
    folder, truth = fresh(tmp_path), Truth()
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(disk=disk, truth=truth) as sim:
            await sim.client(ask("long ago", PROMPT, max_tokens=1))
    for attempt in range(3):
        with open_settled_disk(folder) as disk:
            async with open_kv_simulation(disk=disk, truth=truth) as sim:
                curse(sim, failure)
                story = sim.expect(ask(f"attempt {attempt}", PROMPT, max_tokens=50))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(sim.client, story.asked)
                    await until(partial(has_begun, story))
                    assert sim.cache.statistics().strikes == (BLOCKS if attempt == 0 else 0)
                    story.connection.cancel()
                await sim.settle()
                sim.evict()  # as if killed: nothing of the slots is kept
                sim.evict(ram=True, disk=True)


async def load_and_leave(sim: KVSimulation) -> None:
    """A client whose prompt has been loaded, all of it, and that no step has run over."""
    story = sim.expect(ask("loads", PROMPT, max_tokens=5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, story.asked)
        last_piece = [128]
        await until(lambda: sim.watch.is_moving and [len(slot.tokens) for slot in sim.manager.table.held] == last_piece)
        story.connection.cancel()
    assert (story.receipt.cached_tokens, story.receipt.computed_tokens) == (256, 0)


@pytest.mark.parametrize("failure", ["raises", "not finite"])
@simulated()
async def test_blocks_stay_on_trial_when_who_restored_them_has_gone(failure: str, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk", slots=1) as sim:
        curse(sim, failure)
        await load_and_leave(sim)
        story = await sim.client(ask("retry", PROMPT, max_tokens=5))
        assert len(story.tokens()) == 5
        assert sim.cache.statistics().strikes == BLOCKS
        lift(sim)


@pytest.mark.parametrize("failure", ["raises", "not finite"])
@simulated()
async def test_who_was_preempted_with_nothing_may_come_back_to_blocks_on_trial(failure: str, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "ram") as sim, trio.open_nursery() as clients:
        blocks = [block for key in sim.keys(PROMPT) if (block := sim.ram.get(key)) is not None]
        sim.evict(ram=True)
        other = sim.expect(ask("other", text(20, 3), max_tokens=100))
        clients.start_soon(sim.client, other.asked)
        await until(partial(has_begun, other))
        low = sim.expect(ask("low", PROMPT, max_tokens=5, priority=10))
        clients.start_soon(sim.client, low.asked)
        await until(lambda: sim.manager.statistics().leased == 2)  # while a step runs
        curse(sim, failure)
        with sim.as_manager():
            for block in blocks:
                sim.ram.insert(block)
        loads = sim.expect(ask("loads", PROMPT, max_tokens=5))
        clients.start_soon(sim.client, loads.asked)
        await until(lambda: sim.watch.is_moving and any(len(slot.tokens) == 128 for slot in sim.manager.table.held))
        loads.connection.cancel()
        await until(lambda: low.ended)
        assert (sim.manager.statistics().parks, low.finished().completion_tokens) == (1, 5)
        assert sim.cache.statistics().strikes == BLOCKS
        lift(sim)


@pytest.mark.parametrize("failure", ["raises", "not finite"])
@simulated()
async def test_a_copy_of_what_is_on_trial_is_on_trial(failure: str, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk", slots=2) as sim:
        curse(sim, failure)
        await load_and_leave(sim)
        (source,) = [slot for slot in sim.manager.table.free if slot.tokens]
        assert source.held_until > trio.current_time(), "the retry would be given this slot"
        story = sim.expect(ask("copies", [*PROMPT[:-5], 7, 8], max_tokens=5))
        grant = SlotTable.grant

        def to_another(table: SlotTable, *who: Any, **how: Any) -> SlotView | None:  # noqa: ANN401  as it is asked
            return grant(table, *who, **{**how, "reuse": False})

        with mock.patch.object(SlotTable, "grant", to_another):
            await sim.client(story.asked)
        assert sim.manager.statistics().pool.shared_tokens > 0
        assert len(story.tokens()) == 5
        assert sim.cache.statistics().strikes == BLOCKS
        lift(sim)


@simulated()
async def test_blocks_that_stood_their_trial_are_not_invalidated_for_what_comes_after(tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk", slots=1) as sim:
        await sim.client(ask("first", PROMPT))
        poison = next(token for token in range(390) if token not in PROMPT)
        sim.faults.raise_on.add(poison)
        story = await sim.client(ask("poisoned", [*PROMPT, poison]))
        assert isinstance(story.failed(), StepFailed)
        assert sim.cache.statistics().strikes == 0


@simulated()
async def test_resident_kv_that_fails_is_computed_again() -> None:
    async with open_kv_simulation(slots=1) as sim:
        await sim.client(ask("first", PROMPT))
        poison = next(token for token in range(390) if token not in PROMPT)
        slot = sim.manager.table.free[0]
        sim.model.curse(slot.pages.place(100), "not finite")
        second = await sim.client(ask("second", [*PROMPT, poison]))
        assert second.finished().cached_tokens == 0
        assert len(second.tokens()) == 4


@pytest.mark.parametrize("failure", ["raises", "not finite"])
@simulated()
async def test_a_failure_that_is_the_requests_own(failure: str, tmp_path: Path) -> None:
    """The clean attempt fails too: one retry, then its error."""
    async with warm(fresh(tmp_path), "ram", "disk") as sim:
        poison = next(token for token in range(390) if token not in PROMPT)
        (sim.faults.raise_on if failure == "raises" else sim.faults.not_finite_on).add(poison)
        story = await sim.client(ask("poisoned", [*PROMPT, poison]))
        assert isinstance(story.failed(), StepFailed)
        assert story.receipt.reason == "fault"
        assert runs(sim, story) <= 1 + 10 + 1
        assert sim.cache.statistics().strikes == BLOCKS
        other = await sim.client(ask("other", PROMPT))
        assert other.finished().cached_tokens in (0, len(PROMPT) // BLOCK_TOKENS * BLOCK_TOKENS)


@pytest.mark.parametrize("failure", FAILURES)
@simulated(seeds=3)
async def test_neighbours_are_not_disturbed(failure: str, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk", slots=3) as sim, trio.open_nursery() as nursery:
        neighbours = [sim.expect(ask(f"n{n}", text(150, 20 + n), max_tokens=60)) for n in range(2)]
        for neighbour in neighbours:
            nursery.start_soon(sim.client, neighbour.asked)
        await trio.sleep(0.05)
        curse(sim, failure)
        story = await sim.client(ask("client", PROMPT, max_tokens=5))
        lift(sim)
        assert len(story.tokens()) == 5
        await until(lambda: all(neighbour.ended for neighbour in neighbours))
        for neighbour in neighbours:
            assert len(neighbour.tokens()) == 60
            assert not neighbour.receipts
            assert neighbour.finished().cached_tokens == 0


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("delay", [0.0, 0.004, 0.012])
@simulated(seeds=4)
async def test_two_that_restore_the_same_blocks(failure: str, delay: float, tmp_path: Path) -> None:
    """One copies from the other what is still on trial; both get their answers, and nothing loops."""
    async with warm(fresh(tmp_path), "disk", slots=2) as sim, trio.open_nursery() as nursery:
        curse(sim, failure)
        stories = [sim.expect(ask(f"agent {n}", PROMPT + text(30, 30 + n), max_tokens=8)) for n in range(2)]
        for n, story in enumerate(stories):
            nursery.start_soon(partial(sim.client, story.asked, arrives=trio.current_time() + n * delay))
        await trio.sleep(2.0)
        for story in stories:
            assert len(story.tokens()) == 8
            assert not story.receipts
        lift(sim)


@simulated()
async def test_a_block_that_is_invalidated_before_its_load_is_not_loaded(tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk") as sim:
        fetched = await sim.cache.fetch(sim.keys(PROMPT))
        with sim.as_manager():
            assert len(sim.cache.take(fetched)) == BLOCKS
            sim.cache.invalidation.invalidate(sim.keys(PROMPT)[1:2])
            assert sim.cache.take(fetched) == []


@simulated()
async def test_a_block_that_is_invalidated_while_it_is_loaded_is_not_used(tmp_path: Path) -> None:
    """The transfer runs while others do: one of them may find the block wrong."""
    async with warm(fresh(tmp_path), "disk") as sim:

        def strike(transfer: Transfer) -> bool:
            if isinstance(transfer, Load):
                with sim.as_manager():
                    sim.cache.invalidation.invalidate(sim.keys(PROMPT))
            return False

        sim.faults.fails = strike
        story = await sim.client(ask("reader", PROMPT, max_tokens=3))
        assert sim.cache.statistics().strikes == BLOCKS
        assert story.finished().cached_tokens == 0
        assert sim.rows(story) == len(PROMPT)


@simulated(seeds=4)
async def test_a_block_that_is_invalidated_while_it_is_being_read_does_not_come_back(tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk") as sim, trio.open_nursery() as nursery:
        keys = sim.keys(PROMPT)

        @nursery.start_soon
        async def fetch() -> None:
            fetched = await sim.cache.fetch(keys)
            with sim.as_manager():
                assert sim.cache.take(fetched) == []

        await trio.sleep(0.0019)
        with sim.as_manager():
            sim.cache.invalidation.invalidate(keys)
        await trio.sleep(1.0)
        assert len(sim.ram) == 0
        assert all(key not in sim.cache.tiers for key in keys)
