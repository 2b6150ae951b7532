"""Audits (seed 4): restored blocks are computed again at times, and one that lies is invalidated wherever it went."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest
import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import (
    SettledDisk,
    fresh,
    rewrite,
    text,
    until,
)
from tests.fakes.simulation import ask, simulated
from tests.scenarios.kv.cursed import BLOCKS, PROMPT, blocks, let_the_second_block_lie, warm


@pytest.mark.parametrize("place", range(BLOCKS))
@simulated()
async def test_an_audit_finds_a_block_that_lies(place: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its bytes were changed, and its checksum made to fit."""
    folder = fresh(tmp_path)
    async with warm(folder, "disk", audit_share=1.0) as sim:
        assert isinstance(sim.cache.tiers.disk, SettledDisk)
        lying = blocks(sim, sim.cache.tiers.disk)[place]
        rewrite(folder, lying, [row ^ 0xF000F000 for row in sim.truth.rows(PROMPT)[place * 64 : place * 64 + 64]])
        sim.let_blocks_lie()
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            story = await sim.client(ask("client", PROMPT + text(20, 2), max_tokens=10))
        assert len(story.tokens()) == 10
        sim.check_exact(story)
        assert story.finished().cached_tokens == 0
        statistics = sim.cache.statistics()
        assert (statistics.audits, statistics.audit_failures, statistics.strikes) == (1, 1, BLOCKS)
        assert sum("audit" in record.message for record in caplog.records) == 1
        sim.watch.kv_is_exact = True
        await sim.settle()
        sim.check()
        sim.evict()
        again = await sim.client(ask("again", PROMPT + text(20, 3)))
        assert again.finished().cached_tokens == (BLOCKS - 1) * BLOCK_TOKENS
        assert sim.cache.statistics().audit_failures == 1
        sim.check_disk()


@pytest.mark.parametrize("resident", [0, 70, 128])
@simulated()
async def test_an_audit_of_what_is_right_costs_one_block(resident: int, tmp_path: Path) -> None:
    async with warm(fresh(tmp_path), "disk", slots=1, audit_share=1.0) as sim:
        if resident:
            await sim.client(ask("first", PROMPT[:resident], max_tokens=1))
        story = await sim.client(ask("client", PROMPT, max_tokens=3))
        assert story.finished().cached_tokens == (BLOCKS - 1) * BLOCK_TOKENS
        assert sim.cache.statistics().audit_failures == 0
        assert sim.cache.statistics().audits >= 1
        assert sim.cache.statistics().strikes == 0


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.01, 0.02, 0.04, 0.08])
@simulated(seeds=4)
async def test_what_an_audit_finds_is_not_used_where_it_was_copied_to(delay: float, tmp_path: Path) -> None:
    """A follower copies what its leader restored, before the audit of it; neither answers from it, or hands it on."""
    folder = fresh(tmp_path)
    async with warm(folder, "disk", slots=3, audit_share=1.0) as sim, trio.open_nursery() as nursery:
        let_the_second_block_lie(sim, folder)
        stories = [sim.expect(ask(f"agent {n}", PROMPT + text(60, 30 + n), max_tokens=8)) for n in range(2)]
        for n, story in enumerate(stories):
            nursery.start_soon(partial(sim.client, story.asked, arrives=trio.current_time() + n * delay))
        await until(lambda: all(story.ended for story in stories))
        assert sim.cache.statistics().audit_failures >= 1
        for story in stories:
            sim.check_exact(story)
            assert len(story.tokens()) == 8
        await sim.settle()
        sim.watch.kv_is_exact = True
        sim.check()
        sim.check_disk()


@simulated(seeds=2)
async def test_what_an_audit_finds_is_not_kept_of_those_who_were_answered_from_it(tmp_path: Path) -> None:
    """A neighbour that already decodes on it cannot be helped; but its slot is of no use to anybody afterwards."""
    folder = fresh(tmp_path)
    async with warm(folder, "disk", slots=3) as sim, trio.open_nursery() as nursery:
        let_the_second_block_lie(sim, folder)
        unlucky = sim.expect(ask("unlucky", PROMPT[:150], max_tokens=100))
        idle = sim.expect(ask("idle", PROMPT[:150] + text(30, 5), max_tokens=1))
        nursery.start_soon(sim.client, unlucky.asked)
        await sim.client(idle.asked)
        await until(lambda: len(unlucky.events) > 2)
        sim.cache.invalidation.audit_share = 1.0
        audited = await sim.client(ask("audited", PROMPT, max_tokens=3))
        assert sim.cache.statistics().audit_failures == 1
        sim.check_exact(audited)
        sim.watch.kv_is_exact = False
        await until(lambda: unlucky.ended)
        for story in (unlucky, idle):
            del sim.stories[story.asked.id]  # their answers are wrong
        assert all(slot.tokens == [] or slot.tokens[:300] == PROMPT for slot in sim.manager.table.free)
        await sim.settle()
        sim.watch.kv_is_exact = True
        sim.check()
        sim.check_disk()


@simulated(seeds=2)
async def test_what_an_audit_finds_is_not_copied_from_those_who_decode_on_it(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    async with warm(folder, "disk", slots=3) as sim, trio.open_nursery() as nursery:
        let_the_second_block_lie(sim, folder)
        unlucky = sim.expect(ask("unlucky", PROMPT[:150], max_tokens=200))
        nursery.start_soon(sim.client, unlucky.asked)
        await until(lambda: len(unlucky.events) > 40)
        sim.cache.invalidation.audit_share = 1.0
        audited = await sim.client(ask("audited", PROMPT, max_tokens=3))
        assert sim.cache.statistics().audit_failures == 1
        successor = await sim.client(ask("successor", [*PROMPT[:150], *unlucky.tokens()], max_tokens=8))
        for story in (audited, successor):
            sim.check_exact(story)
        assert not unlucky.ended
        del sim.stories["unlucky"]  # its answer is wrong
        nursery.cancel_scope.cancel()
