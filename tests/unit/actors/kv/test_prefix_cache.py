"""Which blocks exist and which have yet to be kept: the prefix cache alone, without an engine."""

from __future__ import annotations

import math
import threading
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import trio

from actors.core.slots import Resident
from actors.kv import prefix_cache
from actors.kv.prefix_cache import CacheConfig, PrefixCache, TierOptions, empty_cache, open_prefix_cache
from actors.kv.waiting_blocks import SlotBlock
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys
from runtime.kv.disk import files as block_files
from runtime.kv.disk.tier import DiskTier, DiskTierStatistics
from runtime.kv.ram_tier import RamTier
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import (
    BLOCK_BYTES,
    ROOT,
    SettledDisk,
    fresh,
    open_settled_disk,
    pack,
    reads_in_virtual_time,
    text,
)
from tests.fakes.simulation import simulated
from tests.live.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

TOKENS = text(300, 1)
KEYS = block_keys(ROOT, TOKENS)
FINGERPRINT = "f" * 64


class FakeDisk:
    """A dictionary, and what was asked of it."""

    def __init__(self, room: int = 1000) -> None:
        self.blocks: dict[BlockKey, Block] = {}
        self.room = room
        self.unreadable: set[BlockKey] = set()
        self.refused: list[BlockKey] = []
        self.asked: list[BlockKey] = []
        self.touched: list[list[BlockKey]] = []

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        return {key for key in keys if key in self.blocks}

    def parents(self) -> dict[BlockKey, BlockKey]:
        return {key: block.parent for key, block in self.blocks.items()}

    def put_nowait(self, block: Block) -> bool:
        if len(self.blocks) >= self.room:
            return False
        self.blocks[block.key] = block
        return True

    def take_refused(self) -> list[BlockKey]:
        refused, self.refused = self.refused, []
        return refused

    def load(self, key: BlockKey) -> Block | None:
        self.asked.append(key)
        if key in self.unreadable:
            self.drop([key])
        return self.blocks.get(key)

    def drop(self, keys: Collection[BlockKey]) -> None:
        for key in keys:
            self.blocks.pop(key, None)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        self.touched.append(list(keys))

    def statistics(self) -> DiskTierStatistics:
        return DiskTierStatistics(len(self.blocks), 0, 0, 0, 0, 0, 0, 0, 0, {}, 0, False)


def cache_with(*, ram: int = 100, disk: FakeDisk | SettledDisk | None = None, audit_share: float = 0.0) -> PrefixCache:
    config = CacheConfig(audit_share=audit_share)
    return PrefixCache(ROOT, BLOCK_BYTES, ram=RamTier(ram * BLOCK_BYTES), disk=disk, config=config, seed=1)


def rows(place: int) -> torch.Tensor:
    return pack(range(1000 * place, 1000 * place + BLOCK_TOKENS))


def slot_block(place: int, tokens: Sequence[int] = TOKENS) -> SlotBlock:
    keys = block_keys(ROOT, tokens)
    start = place * BLOCK_TOKENS
    return SlotBlock(keys[place], [ROOT, *keys][place], start, tuple(tokens[start : start + BLOCK_TOKENS]))


def keep(cache: PrefixCache, *places: int, slot: int = 0) -> None:
    for place in places:
        cache.keep(slot, slot_block(place), rows(place))


def resident(tokens: Sequence[int], *stands_on: BlockKey) -> Resident:
    return Resident(TokenChain(ROOT, tokens), stands_on=frozenset(stands_on))


def waiting(cache: PrefixCache, slot: int = 0) -> list[int]:
    """Places of the blocks of a slot that are to be kept."""
    return [block.start // BLOCK_TOKENS for block in cache.waiting.of(slot)]


# --- what is there ----------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_keys_name_complete_blocks() -> None:
    cache = cache_with()
    assert cache.keys(TOKENS) == KEYS
    assert len(KEYS) == 4
    assert cache.keys(TOKENS[:63]) == []
    assert len(cache.keys(TOKENS[:64])) == 1


@simulated(seeds=1)
async def test_reach_is_where_the_first_gap_is() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 3)
    assert [cache.reach(KEYS, first) for first in range(5)] == [2, 2, 2, 4, 4]
    cache._ram.drop(KEYS[1])  # on disk still
    assert cache.reach(KEYS, 0) == 2
    disk.drop([KEYS[1]])
    assert cache.reach(KEYS, 0) == 1
    assert cache.reach(KEYS[:1], 0) == 1
    assert cache.reach([], 0) == 0


@simulated(seeds=1)
async def test_a_cache_that_keeps_nothing() -> None:
    cache = empty_cache()
    assert not cache.keeps
    assert cache.keys(TOKENS) == []
    cache.leave(0, resident(TOKENS), 10.0)
    cache.displace(0, resident(TOKENS), 0)
    assert not cache.unsaved(0)
    assert cache.statistics().disk is None
    assert cache_with(ram=0, disk=FakeDisk()).keeps
    assert cache_with(ram=1).keeps


# --- fetching ---------------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_fetch_takes_from_ram_before_disk_and_counts_both() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    cache._ram.drop(KEYS[1])
    with reads_in_virtual_time(0.01):
        blocks = await cache.fetch(KEYS[:3])
    assert [block.key for block in blocks] == KEYS[:3]
    assert [block.token_ids for block in blocks] == [slot_block(place).token_ids for place in range(3)]
    assert disk.asked == [KEYS[1]]
    assert cache.statistics().hits == {"resident": 0, "live": 0, "ram": 128, "disk": 64}
    assert KEYS[1] in cache._ram, "what was read is not at hand the next time"
    assert disk.touched == [KEYS[:3]]


@simulated(seeds=1)
async def test_fetch_ends_at_the_first_that_cannot_be_had() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=0, disk=disk)
    keep(cache, 0, 1, 2)
    disk.unreadable = {KEYS[1]}
    with reads_in_virtual_time(0.01):
        assert [block.key for block in await cache.fetch(KEYS[:3])] == KEYS[:1]
        assert await cache.fetch(KEYS[1:3]) == []
        assert await cache.fetch(KEYS[3:]) == []
    assert cache.statistics().hits["disk"] == 64


@simulated(seeds=1)
async def test_what_was_struck_while_it_was_read_does_not_come_back_though_it_was_computed_anew() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=0, disk=disk)
    keep(cache, 0)
    wrong = disk.blocks[KEYS[0]]
    fetched: list[Block] = []
    with reads_in_virtual_time(0.01):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def fetch() -> None:
                fetched.extend(await cache.fetch(KEYS[:1]))

            await trio.sleep(0.009)
            cache.strike(KEYS[:1])
            keep(cache, 0)
    assert not any(block is wrong for block in fetched)
    assert KEYS[0] in cache


@simulated(seeds=1)
async def test_blocks_come_back_from_a_real_folder(tmp_path: Path) -> None:
    folder = fresh(tmp_path)
    with open_settled_disk(folder) as disk:
        keep(cache_with(disk=disk), 0, 1, 2)
    with open_settled_disk(folder) as disk, reads_in_virtual_time(0.01):
        cache = cache_with(disk=disk)
        assert cache.reach(KEYS, 0) == 3
        blocks = await cache.fetch(KEYS[:3])
        assert all((block.data == rows(place)).all() for place, block in enumerate(blocks))
        assert cache.statistics().disk == disk.statistics()
        cache.strike(KEYS[1:2])
        assert cache.reach(KEYS, 0) == 1
        assert len(list(folder.glob("*/*.safetensors"))) == 2


@simulated(seeds=1)
async def test_a_small_memory_does_not_hinder_a_long_chain() -> None:
    disk = FakeDisk()
    cache = cache_with(ram=2, disk=disk)
    keep(cache, 0, 1, 2, 3)
    with reads_in_virtual_time(0.01):
        assert [block.key for block in await cache.fetch(KEYS)] == KEYS
    cache.check_integrity()


# --- what is to be kept -----------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_what_a_slot_leaves_is_saved_in_order_and_in_pieces() -> None:
    cache = cache_with()
    cache.leave(3, resident(TOKENS), 0.0)
    assert cache.statistics().unsaved_blocks == 4
    assert cache.next_saves([3], 3) == [(3, slot_block(place)) for place in range(3)]
    assert cache.unsaved(3)
    assert cache.next_saves([1, 3], 3) == [(3, slot_block(3))]
    assert not cache.unsaved(3)
    assert cache.next_saves([3], 3) == []


@simulated(seeds=1)
async def test_what_some_tier_has_is_not_saved_again() -> None:
    cache = cache_with(disk=FakeDisk())
    keep(cache, 0, 2)
    cache._ram.drop(KEYS[2])
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
    cache.forget(0)
    cache.forget(7)
    assert not cache.unsaved(0)
    assert [slot for slot, _ in cache.next_saves([0, 1], 9)] == [1]


@simulated(seeds=1)
async def test_what_is_kept_goes_to_both_tiers() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0)
    assert KEYS[0] in cache._ram
    block = disk.blocks[KEYS[0]]
    assert (block.key, block.parent, block.token_ids) == (KEYS[0], ROOT, tuple(TOKENS[:64]))
    assert (block.data == rows(0)).all()


@simulated(seeds=1)
async def test_what_the_disk_refuses_is_offered_again() -> None:
    disk = FakeDisk(room=1)
    cache = cache_with(ram=2, disk=disk)
    keep(cache, 0, 1)
    assert list(disk.blocks) == KEYS[:1]
    assert not cache.write_behind()
    disk.room = 9
    assert cache.write_behind()
    assert list(disk.blocks) == KEYS[:2]


@simulated(seeds=1)
async def test_what_the_disk_took_and_then_refused_is_offered_again_in_its_order() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    disk.blocks.clear()
    disk.room, disk.refused = 0, KEYS[:3]
    keep(cache, 3)
    cache.strike(KEYS[1:2])
    disk.room = 9
    assert cache.write_behind()
    assert list(disk.blocks) == [KEYS[0], *KEYS[2:]]


@pytest.mark.parametrize(("layers", "blocks"), [(1, 64), (28, 36), (2000, 1)])
async def test_what_waits_for_the_disk_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int, blocks: int
) -> None:
    monkeypatch.setattr(prefix_cache, "fingerprint", lambda _: FINGERPRINT)
    row_shape = (layers, 2, 8, 128)
    kv = SimpleNamespace(row_shape=row_shape, dtype=torch.bfloat16, bytes_per_token=2 * math.prod(row_shape))
    options = TierOptions(ram=0, folder=tmp_path / "kv")
    async with open_prefix_cache(options, CacheConfig(), tmp_path, FINGERPRINT, kv) as cache:  # type: ignore[arg-type]
        assert isinstance(cache._disk, DiskTier)
        assert cache._disk._queue_blocks == blocks


async def test_what_the_disk_refused_is_offered_again_though_nobody_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, all_taken = threading.Event(), trio.Event()
    offer = PrefixCache.write_behind

    def write_temporary(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        assert may_write.wait(PATIENCE)
        return block_files.write_temporary(*args, **kwargs)

    def write_behind(cache: PrefixCache, block: Block | None = None) -> bool:
        taken = offer(cache, block)
        if taken and may_write.is_set():
            all_taken.set()
        return taken

    monkeypatch.setattr(prefix_cache, "fingerprint", lambda _: FINGERPRINT)
    monkeypatch.setattr(prefix_cache, "QUEUE_BLOCKS", 2)
    monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", write_temporary)
    monkeypatch.setattr(PrefixCache, "write_behind", write_behind)
    kv = SimpleNamespace(row_shape=(1, 2, 1, 8), dtype=torch.float32, bytes_per_token=64)
    options = TierOptions(ram=2**20, folder=tmp_path / "kv")
    async with open_prefix_cache(options, CacheConfig(), tmp_path, FINGERPRINT, kv) as cache:  # type: ignore[arg-type]
        tokens = text(8 * BLOCK_TOKENS, 1)
        keys = cache.keys(tokens)
        for place, (parent, key) in enumerate(pairwise([cache.root, *keys])):
            start = place * BLOCK_TOKENS
            block = SlotBlock(key, parent, start, tuple(tokens[start : start + BLOCK_TOKENS]))
            cache.keep(0, block, torch.zeros(1, 2, 1, BLOCK_TOKENS, 8))
        assert not cache.write_behind()
        may_write.set()
        with trio.fail_after(PATIENCE):
            await all_taken.wait()
        assert cache._disk is not None
        assert cache._disk.held(keys) == set(keys)


@simulated(seeds=1)
async def test_a_disk_that_takes_nothing_for_long_does_not_fill_the_memory_with_names() -> None:
    disk = FakeDisk(room=0)
    cache = cache_with(ram=3, disk=disk)
    keep(cache, 0)
    for seed in range(1000):
        cache._touch(KEYS[:1])
        cache.keep(0, slot_block(0, text(64, 1000 + seed)), rows(1))
    assert len(cache._unwritten) < 100
    disk.room = 9
    assert cache.write_behind()
    assert len(disk.blocks) == 3
    assert KEYS[0] in disk.blocks


@simulated(seeds=1)
async def test_what_is_struck_before_the_disk_took_it_is_not_offered_again() -> None:
    disk = FakeDisk(room=0)
    cache = cache_with(disk=disk)
    keep(cache, 0, 1)
    cache.strike(KEYS[:1])
    disk.room = 9
    assert cache.write_behind()
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
    assert cache.reach(KEYS, 0) == 4
    assert cache.statistics().ram.evictions == 5


# --- what is wrong ----------------------------------------------------------------------------------------------------


@simulated(seeds=1)
async def test_a_strike_takes_blocks_out_of_both_tiers() -> None:
    disk = FakeDisk()
    cache = cache_with(disk=disk)
    keep(cache, 0, 1, 2)
    cache._ram.drop(KEYS[0])
    disk.drop([KEYS[1]])
    cache.strike(KEYS[:2])
    cache.strike(KEYS[:2])
    assert cache.statistics().strikes == 2
    assert not any(key in cache for key in KEYS[:2])
    assert KEYS[2] in cache
    cache.strike([])
    cache.check_integrity()


@simulated(seeds=1)
async def test_audits_are_a_share_of_the_restores() -> None:
    assert not any(cache_with().wants_audit() for _ in range(50))
    always, some = cache_with(audit_share=1.0), cache_with(audit_share=0.25)
    assert all(always.wants_audit() for _ in range(50))
    assert 200 < sum(some.wants_audit() for _ in range(1000)) < 300


@simulated(seeds=1)
async def test_audits_are_counted_and_a_bad_one_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    cache = cache_with()
    cache.audited(agrees=True)
    assert caplog.records == []
    cache.audited(agrees=False)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert (cache.statistics().audits, cache.statistics().audit_failures) == (2, 1)


@simulated(seeds=1)
async def test_pieces_have_at_least_one_block() -> None:
    for size, blocks in [(1, 1), (BLOCK_BYTES, 1), (3 * BLOCK_BYTES - 1, 2), (64 * BLOCK_BYTES, 64)]:
        assert (
            PrefixCache(ROOT, BLOCK_BYTES, ram=RamTier(0), config=CacheConfig(piece_bytes=size)).piece_blocks == blocks
        )
