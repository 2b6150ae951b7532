"""Prefix cache alone, without an engine: which blocks exist, and what is fetched, invalidated and audited."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache, empty_cache
from runtime.kv.blocks import Block
from tests.fakes.kv_simulation import (
    BLOCK_BYTES,
    ROOT,
    fresh,
    open_settled_disk,
    reads_in_virtual_time,
)
from tests.fakes.simulation import simulated
from tests.unit.actors.kv.prefix_caches import KEYS, TOKENS, FakeDisk, cache_with, keep, resident, rows, slot_block

# --- what is there ----------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_reach_is_where_the_first_gap_is() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 3)
    assert [cache.tiers.reach(KEYS, first) for first in range(5)] == [2, 2, 2, 4, 4]
    cache.tiers.ram.drop(KEYS[1])  # on disk still
    assert cache.tiers.reach(KEYS, 0) == 2
    disk.drop([KEYS[1]])
    assert cache.tiers.reach(KEYS, 0) == 1
    assert cache.tiers.reach(KEYS[:1], 0) == 1
    assert cache.tiers.reach([], 0) == 0


@simulated(seeds=1)
async def test_a_cache_that_keeps_nothing() -> None:
    cache = empty_cache()
    assert not cache.tiers.keep_anything
    cache.leave(0, resident(TOKENS), 10.0)
    cache.displace(0, resident(TOKENS), 0)
    assert not cache.waiting.any_of(0)
    assert cache.statistics().disk is None
    assert cache_with(ram=0, disk=FakeDisk()).tiers.keep_anything
    assert cache_with(ram=1).tiers.keep_anything


# --- fetching ---------------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_fetch_takes_from_ram_before_disk_and_counts_both() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    cache.tiers.ram.drop(KEYS[1])
    with reads_in_virtual_time(0.01):
        blocks = cache.take(await cache.fetch(KEYS[:3]))
    assert [block.key for block in blocks] == KEYS[:3]
    assert [block.token_ids for block in blocks] == [slot_block(place).token_ids for place in range(3)]
    assert disk.asked == [KEYS[1]]
    assert cache.statistics().hits == {"resident": 0, "live": 0, "ram": 128, "disk": 64}
    assert KEYS[1] in cache.tiers.ram, "what was read is not at hand the next time"
    assert disk.touched == [KEYS[:3]]


@simulated(seeds=1)
async def test_fetch_ends_at_the_first_that_cannot_be_had() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=0, disk=disk)
    keep(cache, 0, 1, 2)
    disk.unreadable = {KEYS[1]}
    with reads_in_virtual_time(0.01):
        assert [block.key for block in cache.take(await cache.fetch(KEYS[:3]))] == KEYS[:1]
        assert cache.take(await cache.fetch(KEYS[1:3])) == []
        assert cache.take(await cache.fetch(KEYS[3:])) == []
    assert cache.statistics().hits["disk"] == 64


@simulated(seeds=1)
async def test_what_was_invalidated_while_it_was_read_does_not_come_back_though_it_was_computed_anew() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=0, disk=disk)
    keep(cache, 0)
    wrong = disk.blocks[KEYS[0]]
    fetched: list[Block] = []
    with reads_in_virtual_time(0.01):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def fetch() -> None:
                fetched.extend(cache.take(await cache.fetch(KEYS[:1])))

            await trio.sleep(0.009)
            cache.invalidation.invalidate(KEYS[:1])
            keep(cache, 0)
    assert not any(block is wrong for block in fetched)
    assert KEYS[0] in cache.tiers


@simulated(seeds=1)
async def test_blocks_come_back_from_a_real_folder(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        keep(cache_with(disk=disk), 0, 1, 2)
    with open_settled_disk(folder) as disk, reads_in_virtual_time(0.01):
        cache = cache_with(disk=disk)
        assert cache.tiers.reach(KEYS, 0) == 3
        blocks = cache.take(await cache.fetch(KEYS[:3]))
        assert all((block.data == rows(place)).all() for place, block in enumerate(blocks))
        assert cache.statistics().disk == disk.statistics()
        cache.invalidation.invalidate(KEYS[1:2])
        assert cache.tiers.reach(KEYS, 0) == 1
        assert len(list(folder.glob("*/*.safetensors"))) == 2


@simulated(seeds=1)
async def test_a_small_memory_does_not_hinder_a_long_chain() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=2, disk=disk)
    keep(cache, 0, 1, 2, 3)
    with reads_in_virtual_time(0.01):
        assert [block.key for block in cache.take(await cache.fetch(KEYS))] == KEYS
    cache.check_integrity()


# --- what is wrong ----------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_an_invalidation_takes_blocks_out_of_both_tiers() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    cache.tiers.ram.drop(KEYS[0])
    disk.drop([KEYS[1]])
    cache.invalidation.invalidate(KEYS[:2])
    cache.invalidation.invalidate(KEYS[:2])
    assert cache.statistics().strikes == 2
    assert not any(key in cache.tiers for key in KEYS[:2])
    assert KEYS[2] in cache.tiers
    cache.invalidation.invalidate([])
    cache.check_integrity()


@simulated(seeds=1)
async def test_audits_are_a_share_of_the_restores() -> None:
    assert not any(cache_with().invalidation.choose_audit() for _ in range(50))
    always, some = cache_with(audit_share=1.0), cache_with(audit_share=0.25)
    assert all(always.invalidation.choose_audit() for _ in range(50))
    assert 200 < sum(some.invalidation.choose_audit() for _ in range(1000)) < 300


@simulated(seeds=1)
async def test_audits_are_counted_and_a_bad_one_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    cache = cache_with()
    cache.invalidation.note_audit(agrees=True)
    assert caplog.records == []
    cache.invalidation.note_audit(agrees=False)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert (cache.statistics().audits, cache.statistics().audit_failures) == (2, 1)


@simulated(seeds=1)
async def test_pieces_have_at_least_one_block() -> None:
    for size, blocks in [(1, 1), (BLOCK_BYTES, 1), (3 * BLOCK_BYTES - 1, 2), (64 * BLOCK_BYTES, 64)]:
        assert PrefixCache(ROOT, BLOCK_BYTES, ram=0, config=CacheConfig(piece_bytes=size)).piece_blocks == blocks
