"""Prompts served from KV that is already there: exact, whatever it comes from, and only what is new is computed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.core.generation import FinishReason
from actors.kv.restore import MIN_GAIN
from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import KVSimulation, fresh, open_kv_simulation, open_settled_disk, text, until
from tests.fakes.simulation import Story, ask, run, simulated
from tests.scenarios.kv.sources import SYSTEM, blocks_of

# --- each source ------------------------------------------------------------------------------------------------------

SOURCES = ["resident", "live", "ram", "disk", "resident, ram, disk", "live, ram, disk", "ram, disk"]


async def warm(sim: KVSimulation, source: str) -> tuple[list[int], int]:
    """Bring it about that a prompt's beginning is to be had from `source`; the beginning, and how much of it is."""
    first = await sim.client(ask("first", SYSTEM + text(250, 3), max_tokens=8))
    conversation = sim.whole(first)
    committed = len(conversation) - 1  # the last token has not been read
    await sim.settle()
    if "resident" in source or "live" in source:
        (slot,) = [slot for slot in sim.manager.table.free if len(slot.tokens) == committed]
        if "ram" not in source:
            return conversation, committed
        with sim.as_manager():
            sim.manager.table.trim(slot, 150)
        sim.evict(slots=False, ram=True, blocks=range(4, 20))
        if "live" in source:
            with sim.as_manager():
                for key in sim.keys(conversation)[:2]:
                    sim.ram.drop(key)
                    sim.disk.drop([key])
    else:
        sim.evict()
        if source == "disk":
            sim.evict(ram=True)
        if source == "ram, disk":
            sim.evict(ram=True, blocks=range(3, 20))
    return conversation, blocks_of(committed)


@pytest.mark.parametrize("source", SOURCES)
@simulated(seeds=3)
async def test_only_what_is_new_is_computed(source: str, tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=2, disk=disk) as sim, trio.open_nursery() as nursery:
            conversation, there = await warm(sim, source)
            expected = there
            if "live" in source:  # another agent goes on from it, and is still at it
                nursery.start_soon(sim.client, ask("holder", [*conversation, 7], max_tokens=200))
                await trio.sleep(0.1)
                if source == "live":
                    expected = len(conversation)
            before = dict(sim.cache.hits)
            story = await sim.client(ask("again", conversation + text(70, 4), max_tokens=10))
            nursery.cancel_scope.cancel()
            assert len(story.tokens()) == 10
            finished = story.finished()
            assert finished.cached_tokens >= expected - (MIN_GAIN if "live" in source else 0)
            assert finished.cached_tokens <= len(conversation) + 1
            assert sim.rows(story) == len(story.asked.prompts[0]) - finished.cached_tokens
            assert (finished.timings.cache_n, finished.timings.prompt_n) == (finished.cached_tokens, sim.rows(story))
            grown = {name for name, tokens in sim.cache.hits.items() if tokens > before[name]}
            if source != "live, ram, disk":
                assert grown == set(source.split(", "))
            sim.check_disk()


# --- cancels ----------------------------------------------------------------------------------------------------------


async def story_of_a_cancel(source: str, folder: Path, moment: float | None) -> float:
    """A client that hangs up at that moment, if at any, and its retry; how long the client was there."""
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=2, disk=disk) as sim, trio.open_nursery() as nursery:
            conversation, _ = await warm(sim, source)
            if "live" in source:
                nursery.start_soon(sim.client, ask("holder", [*conversation, 7], max_tokens=300))
                await trio.sleep(0.1)
            tokens = conversation + text(200, 4)
            start = trio.current_time()
            victim = await sim.client(
                ask("victim", tokens, max_tokens=6), hang_up_at=start + (1e6 if moment is None else moment)
            )
            took = trio.current_time() - start
            if moment is not None:
                kept = sum(receipt.cached_tokens + receipt.kept_tokens for receipt in victim.receipts)
                other = await sim.client(ask("other", text(70, 5)))
                assert other.finished().cached_tokens == 0
                retry = await sim.client(ask("retry", [*tokens[:-20], *text(30, 6)], max_tokens=6))
                new = len(tokens) + 10 - min(kept, len(tokens) - 20)
                assert sim.rows(retry) < new + BLOCK_TOKENS, "something was lost"
                assert len(retry.tokens()) == 6
            nursery.cancel_scope.cancel()
            sim.check_disk()
    return took


@pytest.mark.parametrize("source", SOURCES)
def test_a_cancel_at_any_moment_loses_nothing(source: str, tmp_path: Path) -> None:
    took = run(partial(story_of_a_cancel, source, tmp_path / "0", None))
    assert took > 0
    moments = 12
    for n in range(moments):
        folder = tmp_path / str(n + 1)
        run(partial(story_of_a_cancel, source, folder, took * n / moments), seed=n)


@pytest.mark.parametrize("phase", ["queued", "save", "read", "load", "prefill", "decode"])
@simulated()
async def test_a_cancel_in_each_phase(phase: str, tmp_path: Path) -> None:
    """The moments are found, not guessed: each phase is met by name."""
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        async with open_kv_simulation(slots=1, disk=disk) as sim, trio.open_nursery() as nursery:
            first = await sim.client(ask("first", SYSTEM + text(250, 3), max_tokens=8))
            await sim.settle()
            sim.evict(ram=True)
            if phase == "save":  # its blocks are resident, and in no tier yet
                await sim.client(ask("resident", text(300, 8), max_tokens=2))
                assert sim.cache.waiting.any_of(0)
            if phase == "queued":
                nursery.start_soon(sim.client, ask("holder", text(20, 9), max_tokens=20))
                await trio.sleep(0.001)
            victim = sim.expect(ask("victim", sim.whole(first) + text(100, 4), max_tokens=50))
            nursery.start_soon(sim.client, victim.asked)
            await until(lambda: _in_phase(sim, victim, phase))
            victim.connection.cancel()
            await until(lambda: victim.ended)
            assert victim.receipt.phase == (phase if phase in ("queued", "decode") else "prefill")
            retry = await sim.client(ask("retry", victim.asked.prompts[0], max_tokens=10))
            got = victim.receipt.cached_tokens + victim.receipt.kept_tokens
            assert sim.rows(retry) <= len(victim.asked.prompts[0]) - min(got, 558) + BLOCK_TOKENS
            if phase == "save":
                again = await sim.client(ask("again", text(300, 8), max_tokens=2))
                assert again.finished().cached_tokens == blocks_of(299), "what was displaced is lost"


def _in_phase(sim: KVSimulation, story: Story, phase: str) -> bool:
    status = next((request for request in sim.engine.requests() if request.id == story.asked.id), None)
    record = sim.manager.holds.get((story.asked.id, 0))
    if status is None or record is None:
        return phase == "queued" and status is not None
    match phase:
        case "save":
            return sim.watch.is_moving and record.ledger.cached == 0
        case "read":
            return record.pending is None and not sim.watch.is_moving and record.ledger.cached == 0
        case "load":
            return sim.watch.is_moving and record.ledger.cached > 0
        case "prefill":
            return record.ledger.committed > 0 and not story.events
        case "decode":
            return len(story.events) > 3
    return False


# --- figures ----------------------------------------------------------------------------------------------------------


@simulated()
async def test_hits_are_counted_in_tokens_by_source() -> None:
    async with open_kv_simulation(slots=1) as sim:
        first = await sim.client(ask("first", text(200, 1)))
        await sim.client(ask("resident", [*sim.whole(first), 5]))
        await sim.client(ask("stranger", text(200, 2)))
        await sim.client(ask("ram", text(200, 1)))
        assert sim.engine.statistics().manager.cache.hits == {"resident": 203, "live": 0, "ram": 192, "disk": 0}


def test_what_is_asked_for_leaves_the_last_token() -> None:
    """For a prompt of complete blocks, the last block is computed."""

    async def scenario() -> None:
        async with open_kv_simulation(slots=2) as sim:
            await sim.client(ask("first", text(256, 1)))
            await sim.settle()
            sim.evict()
            story = await sim.client(ask("second", text(256, 1)))
            assert story.finished().cached_tokens == 192
            assert story.finished().reason is FinishReason.LENGTH

    run(scenario)


@pytest.mark.parametrize("half_milliseconds", range(0, 60, 3))
@simulated(seeds=1)
async def test_a_slot_that_comes_free_while_kv_is_moved_is_granted_before_the_next_step(half_milliseconds: int) -> None:
    """Seed 436 of `tests.sim`: who waited for it sat out a step.  The watch sees whoever does (I8)."""
    async with open_kv_simulation(slots=2) as sim:
        cached = text(200, 1)
        await sim.client(ask("first", cached))
        await sim.settle()
        sim.evict()
        start = trio.current_time()
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("decodes", text(4, 2), max_tokens=20))
            leaves = partial(sim.client, ask("leaves", cached), hang_up_at=start + half_milliseconds / 2000 + 1e-6)
            clients.start_soon(leaves)
            waits = sim.expect(ask("waits", text(5, 3)))
            clients.start_soon(partial(sim.client, waits.asked, arrives=start + 1e-7))
        assert waits.finished().reason is FinishReason.LENGTH
