"""Sequences that begin alike have the same pages; each computes its own alone, and no end of one is felt by another.

Every story is held to its solo run when its simulation ends, every page to who reads it after each step (I3, I22).
"""

from __future__ import annotations

import pytest
import trio

from runtime.kv.pages import PAGE_TOKENS
from runtime.loading.served import Proposer
from runtime.step.transfer import Copy, CopyPage
from runtime.testing.faults import Chaos, FaultPlan, ThreadDeath
from tests.fakes.kv_simulation import KVSimulation, open_kv_simulation, text, until
from tests.fakes.simulation import Story, ask, simulated

PREFIX = text(300, 1)  # four pages, and a part of one
SHARED = 4 * PAGE_TOKENS


def of_one_prefix(
    sim: KVSimulation, clients: trio.Nursery, count: int = 2, *, tokens: int = 60, priority: int = 0
) -> list[Story]:
    """Begin requests that have a prefix in common, and one token of their own."""
    stories = [sim.expect(ask(f"r{i}", [*PREFIX, i], max_tokens=tokens, priority=priority)) for i in range(count)]
    for story in stories:
        clients.start_soon(sim.client, story.asked)
    return stories


def pool_shares(sim: KVSimulation, positions: int = SHARED) -> bool:
    """Return whether several sequences have so many positions."""
    return sim.manager.statistics().pool.shared >= positions


@simulated()
async def test_choices_of_one_prompt_have_its_pages_once_and_compute_it_once() -> None:
    """In a pool that has not the room for four of them apart."""
    async with open_kv_simulation(slots=4, context=512, positions=832) as sim:
        async with trio.open_nursery() as clients:
            stories = of_one_prefix(sim, clients, count=4, tokens=50)
            await until(lambda: all(len(story.events) > 2 for story in stories))
            pool = sim.manager.statistics().pool
            assert (pool.shared, pool.shared_tokens) == (SHARED, 3 * SHARED)
            assert pool.held < 2 * 512
        assert sum(sim.rows(story) for story in stories) == 301 + 3
        assert sim.manager.statistics().parks == 0


@pytest.mark.parametrize("leaver", [0, 1])
@pytest.mark.parametrize("events", [0, 1, 8])
@simulated(seeds=3)
async def test_whoever_leaves_the_other_goes_on(leaver: int, events: int) -> None:
    """Before its first token, behind it and amid its answer; who stays copies nothing, and computes nothing twice."""
    async with open_kv_simulation(slots=2) as sim:
        async with trio.open_nursery() as clients:
            stories = of_one_prefix(sim, clients)
            await until(lambda: pool_shares(sim) and len(stories[leaver].events) >= events)
            stories[leaver].connection.cancel()
        stayer = stories[1 - leaver]
        assert len(stayer.tokens()) == 60
        assert sim.rows(stayer) <= 301
        assert sim.manager.statistics().pool.copied_pages == 0


async def resident_that_shares(sim: KVSimulation, clients: trio.Nursery) -> Story:
    """Let one of two that share end, and return the other, which runs on."""
    stays = sim.expect(ask("stays", [*PREFIX, 0], max_tokens=90))
    clients.start_soon(sim.client, stays.asked)
    await until(lambda: len(stays.events) > 1)
    await sim.client(ask("ends", [*PREFIX, 1], max_tokens=2))
    assert pool_shares(sim)
    return stays


@simulated()
async def test_a_prompt_that_leaves_a_shared_page_in_its_midst_has_a_copy_of_its_beginning() -> None:
    async with open_kv_simulation(slots=2) as sim:
        async with trio.open_nursery() as clients:
            stays = await resident_that_shares(sim, clients)
            other = await sim.client(ask("other", [*PREFIX[:150], 7, 7], max_tokens=20))
            assert not stays.ended
        (copied,) = (one for one in sim.watch.transfers if isinstance(one, CopyPage))
        assert copied.rows == 150 - 2 * PAGE_TOKENS
        assert sim.manager.statistics().pool.copied_pages == 1
        assert other.finished().cached_tokens == 150


@simulated()
async def test_a_page_that_cannot_be_copied_costs_its_rows() -> None:
    async with open_kv_simulation(slots=2) as sim:
        async with trio.open_nursery() as clients:
            await resident_that_shares(sim, clients)
            sim.faults.fails = lambda transfer: isinstance(transfer, CopyPage | Copy)
            other = await sim.client(ask("other", [*PREFIX[:150], 7, 7], max_tokens=20))
        assert any(isinstance(one, CopyPage) for one in sim.watch.transfers)
        assert sim.manager.statistics().pool.copied_pages == 0
        assert len(other.tokens()) == 20
        assert sim.rows(other) == 152 - 2 * PAGE_TOKENS


@simulated(seeds=3)
async def test_what_is_displaced_is_copied_out_of_the_pages_where_it_lies() -> None:
    """In the very turn in which whoever displaces it shares another's pages, and leaves these."""
    async with open_kv_simulation(slots=2, piece=8) as sim:
        async with trio.open_nursery() as clients:
            holder = sim.expect(ask("holder", [*PREFIX, 0], max_tokens=60))
            clients.start_soon(sim.client, holder.asked)
            await until(lambda: len(holder.events) > 1)
            await sim.client(ask("before", text(300, 2), max_tokens=1))
            assert sim.cache.waiting
            await sim.client(ask("shares", [*PREFIX, 1], max_tokens=2))
            assert sim.manager.statistics().pool.shared_tokens == SHARED
        await sim.settle()
        assert sim.reach(text(300, 2)) == 4


@pytest.mark.parametrize("what", ["raises", "not finite"])
@simulated(seeds=3)
async def test_kv_that_is_found_wrong_is_read_anew_by_all_who_have_it(what: str) -> None:
    """One has it in its slot, and two share it with that one; nobody's client learns of it."""
    async with open_kv_simulation(slots=4) as sim:
        await sim.client(ask("before", PREFIX, max_tokens=1))
        await sim.settle()
        (slot,) = (slot for slot in sim.manager.table.free if slot.tokens)
        sim.model.curse(slot.pages.place(100), what)
        async with trio.open_nursery() as clients:
            stories = of_one_prefix(sim, clients, count=3, tokens=20)
        assert sim.manager.statistics().pool.shared_tokens == 2 * SHARED
        assert [(story.finished().cached_tokens, len(story.tokens())) for story in stories] == [(0, 20)] * 3


@simulated(seeds=3)
async def test_who_is_preempted_leaves_shared_pages_to_the_other_and_finds_them_again() -> None:
    async with open_kv_simulation(slots=2) as sim:
        async with trio.open_nursery() as clients:
            stories = of_one_prefix(sim, clients, priority=10)
            await until(lambda: pool_shares(sim) and all(len(story.events) > 3 for story in stories))
            await sim.client(ask("high", text(100, 2), max_tokens=10))
        assert (sim.manager.statistics().parks, sim.manager.statistics().resumes) == (1, 1)
        assert [len(story.tokens()) for story in stories] == [60, 60]
        assert sum(sim.rows(story) for story in stories) == 301 + 1, "nothing is computed twice"


@simulated(seeds=3)
async def test_a_device_that_is_lost_takes_shared_pages_once() -> None:
    chaos = Chaos(FaultPlan((ThreadDeath(step=12),)))
    async with open_kv_simulation(slots=2, chaos=chaos) as sim:
        async with trio.open_nursery() as clients:
            of_one_prefix(sim, clients)
        pool = sim.manager.statistics().pool
        assert sim.manager.statistics().device_losses == 1
        assert (pool.shared, pool.free) == (0, pool.positions)


@pytest.mark.parametrize("proposer", [Proposer.DRAFT, Proposer.MTP])
@simulated(seeds=3)
async def test_a_drafter_reads_shared_pages_as_its_own(proposer: Proposer) -> None:
    """It has read them where the other's has, and drafts as well from them."""
    async with open_kv_simulation(slots=2, speculate=proposer, accuracy=0.7) as sim:
        async with trio.open_nursery() as clients:
            stories = of_one_prefix(sim, clients)
            await until(lambda: pool_shares(sim))
        assert [len(story.tokens()) for story in stories] == [60, 60]
        assert sim.engine.statistics().speculation.accepted_tokens > 30
