"""A disk that hangs: who asked it waits some seconds, who is cancelled goes at once, and nobody else notices."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import trio

from actors.kv.config import CacheConfig, TierOptions
from actors.kv.disk_reader import MAX_READ_SECONDS, MAX_READERS, REST_SECONDS, DiskReader
from actors.kv.opening import open_prefix_cache
from actors.kv.waiting_blocks import SlotBlock
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys
from runtime.kv.disk.tier import DiskTier
from runtime.testing.faults import Chaos, FaultPlan, SlowRead
from tests.fakes.kv_simulation import (
    KVSimulation,
    fresh,
    open_kv_simulation,
    open_settled_disk,
    reads_in_virtual_time,
    text,
    until,
)
from tests.fakes.simulation import ask, simulated
from tests.live.server import PATIENCE

PROMPT, OTHER = text(200, 1), text(200, 2)
CACHED = 3 * BLOCK_TOKENS
FINGERPRINT = "f" * 64
FOR_EVER = 1e5  # virtual seconds
COMPUTED_WITHIN = 1.0  # the prompts of these tests, and some tokens


@asynccontextmanager
async def hanging(
    folder: Path, seconds: float, *, slots: int = 1, every: int | None = None
) -> AsyncIterator[KVSimulation]:
    """Both prompts are on disk alone, whose first read hangs for so long."""
    chaos = Chaos(FaultPlan((SlowRead(read=1, seconds=seconds, every=every),)))
    with open_settled_disk(folder, chaos=chaos) as disk:
        async with open_kv_simulation(slots=slots, disk=disk, chaos=chaos) as sim:
            for name, tokens in (("warm", PROMPT), ("warm other", OTHER)):
                await sim.client(ask(name, tokens))
                await sim.settle()
            sim.evict(ram=True)
            yield sim


async def seconds_of(sim: KVSimulation, name: str, tokens: list[int], *, cached: int) -> float:
    """Return how long a client takes who finds so many tokens cached."""
    started = trio.current_time()
    story = await sim.client(ask(name, tokens, max_tokens=3))
    assert story.finished().cached_tokens == cached
    assert len(story.tokens()) == 3
    return trio.current_time() - started


@simulated()
async def test_a_read_that_hangs_costs_who_asked_some_seconds_and_the_next_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    async with hanging(fresh(tmp_path), FOR_EVER) as sim:
        assert MAX_READ_SECONDS < await seconds_of(sim, "first", PROMPT, cached=0) < MAX_READ_SECONDS + COMPUTED_WITHIN
        assert await seconds_of(sim, "second", OTHER, cached=0) < COMPUTED_WITHIN
        assert sim.engine.health() is None
        statistics = sim.cache.statistics()
        assert (statistics.late_reads, statistics.disk_answers) == (1, False)
        assert statistics.hits["disk"] == 0
    assert [record.message for record in caplog.records if record.name == "cede.kv"] == [
        "the disk has not answered for 5 s: KV blocks are not read from it for now"
    ]


@simulated()
async def test_what_is_kept_while_the_disk_hangs_is_used_from_memory(tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), FOR_EVER) as sim:
        await seconds_of(sim, "first", PROMPT, cached=0)
        await seconds_of(sim, "other", OTHER, cached=0)
        assert await seconds_of(sim, "again", PROMPT, cached=CACHED) < COMPUTED_WITHIN
        assert sim.cache.hits["ram"] == CACHED


@simulated()
async def test_whoever_asks_at_the_same_time_waits_at_the_same_time(tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), FOR_EVER, slots=2) as sim:
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sim.client, ask("first", PROMPT, max_tokens=3))
            nursery.start_soon(sim.client, ask("second", OTHER, max_tokens=3))
        assert trio.current_time() - started < MAX_READ_SECONDS + COMPUTED_WITHIN
        assert sim.stories["first"].finished().cached_tokens + sim.stories["second"].finished().cached_tokens == CACHED


@pytest.mark.parametrize("late", [MAX_READ_SECONDS + 1, REST_SECONDS + 10])
@simulated()
async def test_the_disk_is_asked_again_when_it_has_rested_and_nothing_hangs(late: float, tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), late) as sim:
        begun = trio.current_time()
        await seconds_of(sim, "first", PROMPT, cached=0)
        assert len(sim.ram) == 0
        back = begun + max(late, MAX_READ_SECONDS + REST_SECONDS)
        await trio.sleep_until(back - 1)
        assert await seconds_of(sim, "second", OTHER, cached=0) < COMPUTED_WITHIN
        assert not sim.cache.statistics().disk_answers
        await trio.sleep_until(back + 1)
        sim.evict(ram=True)
        assert await seconds_of(sim, "third", OTHER, cached=CACHED) < COMPUTED_WITHIN
        assert sim.cache.statistics().disk_answers
        assert sim.cache.hits["disk"] == CACHED


@simulated()
async def test_what_comes_late_is_dropped(tmp_path: Path) -> None:
    """It may have been found wrong meanwhile, and computed anew."""
    async with hanging(fresh(tmp_path), MAX_READ_SECONDS + 1) as sim:
        fetched = await sim.cache.fetch(sim.keys(PROMPT))
        assert fetched.blocks == ()
        await trio.sleep(REST_SECONDS)
        assert len(sim.ram) == 0
        assert sim.cache.hits["disk"] == 0


@simulated()
async def test_a_client_who_leaves_while_its_read_hangs_gives_its_slot_back_at_once(tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), FOR_EVER) as sim:
        victim = await sim.client(ask("victim", PROMPT), hang_up_at=trio.current_time() + 1)
        assert victim.receipt.slot_freed_at == pytest.approx(victim.receipt.detected_at)
        assert trio.current_time() == pytest.approx(victim.left_at)
        assert await seconds_of(sim, "next", text(50, 3), cached=0) < COMPUTED_WITHIN


@simulated()
async def test_a_client_with_a_short_timeout_moves_forward_though_each_of_its_reads_hangs(tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), FOR_EVER, every=1) as sim:
        attempts = 0
        while not (story := await sim.client(ask(f"attempt {attempts}", PROMPT, timeout=2.0))).tokens():
            attempts += 1
        assert attempts == MAX_READ_SECONDS // 2 + 1
        assert story.finished().cached_tokens == 0


@simulated()
async def test_an_operator_and_a_shutdown_are_not_held_up_by_a_read(tmp_path: Path) -> None:
    async with hanging(fresh(tmp_path), FOR_EVER, slots=2) as sim, trio.open_nursery() as nursery:
        deleted, told = sim.expect(ask("deleted", PROMPT)), sim.expect(ask("told", PROMPT))
        nursery.start_soon(sim.client, deleted.asked)
        await trio.sleep(0.5)
        nursery.start_soon(sim.client, told.asked)
        await trio.sleep(0.5)
        sim.delete("deleted")
        await until(lambda: deleted.ended)
        started = trio.current_time()
        await sim.engine.drain(grace=0.1)
        await sim.engine.wait_all_ended()
        assert trio.current_time() - started < COMPUTED_WITHIN


@simulated(seeds=1)
async def test_reads_that_hang_take_no_more_threads_than_their_own() -> None:
    asked: list[BlockKey] = []

    def load(key: BlockKey) -> Block | None:
        asked.append(key)
        return None

    slow: Any = SimpleNamespace(late=0.0)
    reader = DiskReader(load)
    with reads_in_virtual_time(FOR_EVER, slow):
        async with trio.open_nursery() as nursery:
            for number in range(3 * MAX_READERS):
                nursery.start_soon(reader.read, [bytes([number])])
        assert reader.late_reads == 3 * MAX_READERS
        assert reader.busy_threads == MAX_READERS
        await trio.sleep(2 * FOR_EVER)
        assert len(asked) == MAX_READERS
        assert reader.answers()


@simulated(seeds=1)
async def test_a_bug_in_reading_is_a_miss_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def load(key: BlockKey) -> Block | None:
        raise ZeroDivisionError

    reader = DiskReader(load)
    with reads_in_virtual_time(0.1):
        assert await reader.read([b"key"]) == {}
    assert reader.answers()
    assert "could not be read" in caplog.text
    caplog.clear()


async def test_the_end_does_not_wait_for_a_thread_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one."""
    reading, may_read, has_read = threading.Event(), threading.Event(), threading.Event()
    load = DiskTier.load

    def load_later(tier: DiskTier, key: BlockKey) -> Block | None:
        reading.set()
        try:
            assert may_read.wait(PATIENCE)
            return load(tier, key)
        finally:
            has_read.set()

    checkpoint: Any = SimpleNamespace(fingerprint=lambda: FINGERPRINT)
    monkeypatch.setattr(DiskTier, "load", load_later)
    kv: Any = SimpleNamespace(row_shape=(1, 2, 1, 8), dtype=torch.float32, bytes_per_token=64, rings=None)
    options = TierOptions(ram=0, folder=tmp_path / "kv")
    tokens = text(BLOCK_TOKENS, 1)
    async with open_prefix_cache(options, CacheConfig(), checkpoint, FINGERPRINT, kv) as cache:
        (key,) = block_keys(cache.root, tokens)
        cache.keep(0, SlotBlock(key, cache.root, 0, tuple(tokens)), torch.zeros(1, 2, 1, BLOCK_TOKENS, 8))
    with trio.fail_after(PATIENCE):
        async with (
            open_prefix_cache(options, CacheConfig(), checkpoint, FINGERPRINT, kv) as cache,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(cache.fetch, [key])
            await trio.to_thread.run_sync(reading.wait, PATIENCE)
            nursery.cancel_scope.cancel()
    assert not has_read.is_set()
    may_read.set()
    assert has_read.wait(PATIENCE)  # or what it says of the folder that is gone is said in another test


def test_the_log_is_quiet_when_nothing_is_slow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cede.kv")

    @simulated(seeds=1)
    async def scenario() -> None:
        async with hanging(tmp_path / "kv", MAX_READ_SECONDS - 1) as sim:
            assert await seconds_of(sim, "first", PROMPT, cached=CACHED) < MAX_READ_SECONDS

    scenario()
    assert [record for record in caplog.records if record.name == "cede.kv"] == []
