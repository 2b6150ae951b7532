"""Prefix cache alone: which blocks have yet to be kept, and what becomes of those that the disk refuses."""

from __future__ import annotations

import logging
import math
import os
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import trio

from actors.kv import opening
from actors.kv.config import CacheConfig, TierOptions
from actors.kv.opening import open_prefix_cache
from actors.kv.prefix_cache import PrefixCache
from actors.kv.waiting_blocks import SlotBlock
from actors.kv.write_behind import WriteBehind
from runtime.kv.blocks import BLOCK_TOKENS, Block, block_keys
from runtime.kv.disk import files as block_files
from runtime.kv.disk.tier import DiskTier
from tests.fakes.kv_simulation import (
    ROOT,
    text,
)
from tests.fakes.simulation import simulated
from tests.live.server import PATIENCE
from tests.unit.actors.kv.prefix_caches import KEYS, TOKENS, FakeDisk, cache_with, keep, resident, rows, slot_block

FINGERPRINT = "f" * 64
CHECKPOINT: Any = SimpleNamespace(fingerprint=lambda: FINGERPRINT)


def waiting(cache: PrefixCache, slot: int = 0) -> list[int]:
    """Places of the blocks of a slot that are to be kept."""
    return [block.start // BLOCK_TOKENS for block in cache.waiting.of(slot)]


@simulated(seeds=1)
async def test_what_a_slot_leaves_is_saved_in_order_and_in_pieces() -> None:
    cache = cache_with()
    cache.leave(3, resident(TOKENS), 0.0)
    assert cache.statistics().unsaved_blocks == 4
    assert cache.next_saves([3], 3) == [(3, slot_block(place)) for place in range(3)]
    assert cache.waiting.any_of(3)
    assert cache.next_saves([1, 3], 3) == [(3, slot_block(3))]
    assert not cache.waiting.any_of(3)
    assert cache.next_saves([3], 3) == []


@simulated(seeds=1)
async def test_what_some_tier_has_is_not_saved_again() -> None:
    cache = cache_with(disk=FakeDisk())
    keep(cache, 0, 2)
    cache.tiers.ram.drop(KEYS[2])
    cache.leave(0, resident(TOKENS), 0.0)
    cache.leave(1, resident(TOKENS), 0.0)
    assert waiting(cache) == [1, 3]
    for slot, block in cache.next_saves([0, 1], 2):
        cache.keep(slot, block, rows(9))
    assert cache.next_saves([0, 1], 9) == [], "the other slot's, the same, are there by now"


@pytest.mark.parametrize(("usable", "expected"), [(0, [0, 1, 2, 3]), (63, [0, 1, 2, 3]), (64, [1, 2, 3]), (256, [])])
@simulated(seeds=1)
async def test_what_is_displaced_begins_with_the_block_that_is_shared_in_part(usable: int, expected: list[int]) -> None:
    cache = cache_with()
    cache.displace(0, resident(TOKENS), usable)
    assert waiting(cache) == expected


@simulated(seeds=1)
async def test_what_was_displaced_and_not_saved_yet_stays_to_be_saved() -> None:
    cache = cache_with()
    cache.displace(0, resident(TOKENS), 0)
    cache.next_saves([0], 1)
    # The lease ended before it wrote: the table has 100 tokens, the slot the rows of all.
    cache.displace(0, resident(TOKENS[:100]), 70)
    assert waiting(cache) == [1, 2, 3]
    cache.displace(0, resident(TOKENS[:70]), 0)
    assert sorted(waiting(cache)) == [0, 1, 2, 3]


@simulated(seeds=1)
async def test_an_invalid_slot_has_nothing_to_keep() -> None:
    cache = cache_with()
    cache.leave(0, resident(TOKENS), 0.0)
    cache.leave(1, resident(text(100, 2)), 0.0)
    cache.waiting.forget(0)
    cache.waiting.forget(7)
    assert not cache.waiting.any_of(0)
    assert [slot for slot, _ in cache.next_saves([0, 1], 9)] == [1]


@simulated(seeds=1)
async def test_what_is_kept_goes_to_both_tiers() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0)
    assert KEYS[0] in cache.tiers.ram
    block = disk.blocks[KEYS[0]]
    assert (block.key, block.parent, block.token_ids) == (KEYS[0], ROOT, tuple(TOKENS[:64]))
    assert (block.data == rows(0)).all()


@simulated(seeds=1)
async def test_what_the_disk_refuses_is_offered_again() -> None:
    disk = FakeDisk(room=1)
    cache = cache_with(ram=2, disk=disk)
    keep(cache, 0, 1)
    assert list(disk.blocks) == KEYS[:1]
    assert not cache.write_behind.offer()
    disk.room = 9
    assert cache.write_behind.offer()
    assert list(disk.blocks) == KEYS[:2]


@simulated(seeds=1)
async def test_what_the_disk_took_and_then_refused_is_offered_again_in_its_order() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    disk.blocks.clear()
    disk.room, disk.refused = 0, KEYS[:3]
    keep(cache, 3)
    cache.invalidation.invalidate(KEYS[1:2])
    disk.room = 9
    assert cache.write_behind.offer()
    assert list(disk.blocks) == [KEYS[0], *KEYS[2:]]


@pytest.mark.parametrize(("layers", "blocks"), [(1, 64), (28, 36), (2000, 1)])
async def test_what_waits_for_the_disk_is_bounded_in_bytes(tmp_path: Path, layers: int, blocks: int) -> None:
    row_shape = (layers, 2, 8, 128)
    kv: Any = SimpleNamespace(
        row_shape=row_shape, dtype=torch.bfloat16, bytes_per_token=2 * math.prod(row_shape), rings=None
    )
    options = TierOptions(ram=0, folder=tmp_path / "kv")
    async with open_prefix_cache(options, CacheConfig(), CHECKPOINT, FINGERPRINT, kv) as cache:
        assert isinstance(cache.tiers.disk, DiskTier)
        assert cache.tiers.disk.queue_blocks == blocks


async def test_what_the_disk_refused_is_offered_again_though_nobody_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, all_taken = threading.Event(), trio.Event()
    offer = WriteBehind.offer

    def write_temporary(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        assert may_write.wait(PATIENCE)
        return block_files.write_temporary(*args, **kwargs)

    def watched_offer(write_behind: WriteBehind, newest: Block | None = None) -> bool:
        taken = offer(write_behind, newest)
        if taken and may_write.is_set():
            all_taken.set()
        return taken

    monkeypatch.setattr(opening, "MAX_QUEUE_BLOCKS", 2)
    monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", write_temporary)
    monkeypatch.setattr(WriteBehind, "offer", watched_offer)
    kv: Any = SimpleNamespace(row_shape=(1, 2, 1, 8), dtype=torch.float32, bytes_per_token=64, rings=None)
    options = TierOptions(ram=2**20, folder=tmp_path / "kv")
    async with open_prefix_cache(options, CacheConfig(), CHECKPOINT, FINGERPRINT, kv) as cache:
        tokens = text(8 * BLOCK_TOKENS, 1)
        keys = block_keys(cache.root, tokens)
        for place, (parent, key) in enumerate(pairwise([cache.root, *keys])):
            start = place * BLOCK_TOKENS
            block = SlotBlock(key, parent, start, tuple(tokens[start : start + BLOCK_TOKENS]))
            cache.keep(0, block, torch.zeros(1, 2, 1, BLOCK_TOKENS, 8))
        assert not cache.write_behind.offer()
        may_write.set()
        with trio.fail_after(PATIENCE):
            await all_taken.wait()
        assert cache.tiers.disk is not None
        assert cache.tiers.disk.held(keys) == set(keys)


async def test_the_end_leaves_a_disk_that_does_not_answer_however_long_it_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "cede.kv")
    writes, may_write = threading.Event(), threading.Event()

    def write_temporary(folder: int, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        mine = [path.stat() for path in tmp_path.rglob("*") if path.is_dir()]
        if any(os.path.samestat(os.fstat(folder), own) for own in mine):  # no writer that an earlier test has left
            writes.set()
        assert may_write.wait(PATIENCE)
        return block_files.write_temporary(folder, *args, **kwargs)

    turns: list[float] = []
    flush = DiskTier.flush

    def counted(disk: DiskTier, timeout: float) -> int:
        turns.append(timeout)
        return flush(disk, timeout)

    monkeypatch.setattr(DiskTier, "flush", counted)
    monkeypatch.setattr(opening, "STALL_SECONDS", 0.01)
    monkeypatch.setattr("runtime.kv.disk.writer.MAX_LAST_WRITE_SECONDS", 0.01)
    monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", write_temporary)
    kv: Any = SimpleNamespace(row_shape=(1, 2, 1, 8), dtype=torch.float32, bytes_per_token=64, rings=None)
    options = TierOptions(ram=2**20, folder=tmp_path / "kv", flush_seconds=1.0)
    async with open_prefix_cache(options, CacheConfig(), CHECKPOINT, FINGERPRINT, kv) as cache:
        tokens = text(BLOCK_TOKENS, 1)
        block = SlotBlock(block_keys(cache.root, tokens)[0], cache.root, 0, tuple(tokens))
        cache.keep(0, block, torch.zeros(1, 2, 1, BLOCK_TOKENS, 8))
        assert await trio.to_thread.run_sync(writes.wait, PATIENCE)
    may_write.set()
    assert turns == [0.01]
    assert caplog.messages == [
        "not all KV was written to disk in time",
        "the disk does not answer, and a KV block is left half written",
    ]


@simulated(seeds=1)
async def test_a_disk_that_takes_nothing_for_long_does_not_fill_the_memory_with_names() -> None:
    disk = FakeDisk(room=0)
    cache = cache_with(ram=3, disk=disk)
    keep(cache, 0)
    for seed in range(1000):
        cache.tiers.touch(KEYS[:1])
        cache.keep(0, slot_block(0, text(64, 1000 + seed)), rows(1))
    assert len(cache.write_behind) < 100
    disk.room = 9
    assert cache.write_behind.offer()
    assert len(disk.blocks) == 3
    assert KEYS[0] in disk.blocks


@simulated(seeds=1)
async def test_what_is_invalidated_before_the_disk_took_it_is_not_offered_again() -> None:
    disk = FakeDisk(room=0)
    cache = cache_with(disk=disk)
    keep(cache, 0, 1)
    cache.invalidation.invalidate(KEYS[:1])
    disk.room = 9
    assert cache.write_behind.offer()
    assert list(disk.blocks) == KEYS[1:2]


@simulated(seeds=1)
async def test_a_hold_covers_what_is_there_and_what_comes() -> None:
    cache = cache_with(ram=5)
    keep(cache, 0, 1)
    cache.leave(0, resident(TOKENS), held_until=100.0)
    for slot, block in cache.next_saves([0], 9):
        cache.keep(slot, block, rows(5))
    for n in range(6):
        cache.keep(1, slot_block(0, text(64, 10 + n)), rows(6))
    assert cache.tiers.reach(KEYS, 0) == 4
    assert cache.statistics().ram.evictions == 5
