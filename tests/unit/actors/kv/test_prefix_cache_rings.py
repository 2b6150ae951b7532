"""The prefix cache of a model whose windowed layers keep a ring: which blocks are whole, and how far that reaches."""

from __future__ import annotations

from collections.abc import Collection

import pytest
import torch

from actors.core.slot_views import Resident
from actors.kv.prefix_cache import PrefixCache
from runtime.kv.blocks import BLOCK_TOKENS, Block
from runtime.kv.rings import Rings
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import BLOCK_BYTES, ROOT, reads_in_virtual_time
from tests.fakes.simulation import simulated
from tests.sim.kv.device import pack_layers
from tests.unit.actors.kv.prefix_caches import KEYS, TOKENS, FakeDisk

MIXED, ALL_WINDOWED = Rings((None, 70), 200), Rings((70,), 200)
BLOCKS = len(KEYS)


def block(place: int, *, whole: bool) -> Block:
    data = pack_layers(range(1000 * place, 1000 * place + BLOCK_TOKENS), windows=whole)
    tokens = tuple(TOKENS[place * BLOCK_TOKENS : (place + 1) * BLOCK_TOKENS])
    return Block(KEYS[place], [ROOT, *KEYS][place], tokens, data, whole)


def cache_of(
    whole: Collection[int], part: Collection[int] = (), rings: Rings = MIXED, disk: FakeDisk | None = None
) -> PrefixCache:
    """A cache with these blocks in memory."""
    ring_bytes = BLOCK_BYTES if rings.has_full_layers else 2 * BLOCK_BYTES
    cache = PrefixCache(ROOT, 2 * BLOCK_BYTES, ring_bytes, ram=100 * BLOCK_BYTES, rings=rings, disk=disk)
    with cache.owner.claim():
        for place in range(BLOCKS):
            if place in whole or place in part:
                cache.tiers.ram.insert(block(place, whole=place in whole))
    return cache


@pytest.mark.parametrize(
    ("whole", "part", "reach"),
    [
        ({0, 1, 2, 3}, (), 4),
        ({2, 3}, {0, 1}, 4),  # a sequence of 256 tokens sees from 187 on
        ({3}, {0, 1, 2}, 0),
        ({0, 1}, {2, 3}, 2),
        ({0, 1, 3}, {2}, 2),
        ({0}, {1, 2, 3}, 1),
        ((), {0, 1, 2, 3}, 0),
        ({1, 2, 3}, (), 0),
    ],
)
@simulated(seeds=1)
async def test_a_prefix_reaches_where_the_blocks_that_it_still_sees_are_whole(
    whole: Collection[int], part: Collection[int], reach: int
) -> None:
    assert cache_of(whole, part).tiers.reach(KEYS[:4], 0) == reach


@simulated(seeds=1)
async def test_what_lies_in_the_slot_need_not_be_in_a_tier() -> None:
    tiers = cache_of({3}, {0, 1, 2}).tiers
    assert tiers.reach(KEYS[:4], 3) == 4
    assert tiers.reach(KEYS[:4], 2) == 2


@simulated(seeds=1)
async def test_where_every_layer_has_a_ring_nothing_else_is_needed() -> None:
    assert cache_of({2, 3}, rings=ALL_WINDOWED).tiers.reach(KEYS[:4], 0) == 4
    assert cache_of({3}, rings=ALL_WINDOWED).tiers.reach(KEYS[:4], 0) == 0


@simulated(seeds=1)
async def test_the_disk_counts_while_it_has_a_block_whole() -> None:
    disk = FakeDisk()
    cache = cache_of({0, 1}, {2, 3}, disk=disk)
    assert cache.tiers.reach(KEYS[:4], 0) == 2
    for place in (2, 3):
        disk.blocks[KEYS[place]] = block(place, whole=True)
    assert cache.tiers.reach(KEYS[:4], 0) == 4
    assert cache.tiers.whole(KEYS) == set(KEYS[:4])


@simulated(seeds=1)
async def test_a_block_that_is_wanted_whole_is_read_where_memory_has_it_in_part() -> None:
    disk = FakeDisk()
    cache = cache_of({0}, {1, 2}, disk=disk)
    for place in (1, 2):
        disk.blocks[KEYS[place]] = block(place, whole=True)
    with reads_in_virtual_time(0.001):
        fetched = await cache.fetch(KEYS[:3], whole=KEYS[2:3])
    assert [one.whole for one in fetched.blocks] == [True, False, True]
    assert fetched.from_disk == {KEYS[2]}
    cache.take(fetched)
    assert [cache.tiers.ram.get(key).whole for key in KEYS[:3]] == [True, False, True]  # type: ignore[union-attr]


def resident(windows_from: int) -> Resident:
    return Resident(TokenChain(ROOT, TOKENS), windows_from=windows_from)


@simulated(seeds=1)
async def test_blocks_are_kept_whole_while_the_ring_has_their_rows() -> None:
    cache = cache_of(())
    cache.leave(0, resident(100), 0.0)
    assert [one.whole for _, one in cache.next_saves([0], 10)] == [False, False, True, True]


@simulated(seeds=1)
async def test_a_block_that_is_kept_in_part_is_kept_again_when_it_is_whole() -> None:
    cache = cache_of({3}, {0, 1, 2})
    cache.leave(0, resident(100), 0.0)
    (taken,) = cache.next_saves([0], 10)
    assert taken[1].key == KEYS[2]
    cache.keep(0, taken[1], pack_layers(range(BLOCK_TOKENS), windows=True))
    assert cache.tiers.whole(KEYS) == {KEYS[2], KEYS[3]}
    cache.check_integrity()


@simulated(seeds=1)
async def test_where_every_layer_has_a_ring_blocks_that_it_has_lost_are_not_kept() -> None:
    cache = cache_of((), rings=ALL_WINDOWED)
    cache.leave(0, resident(100), 0.0)
    assert [one.key for _, one in cache.next_saves([0], 10)] == KEYS[2:]


@simulated(seeds=1)
async def test_a_piece_is_as_large_as_what_it_brings() -> None:
    mixed, windowed = cache_of(()), cache_of((), rings=ALL_WINDOWED)
    assert mixed.piece_blocks == mixed.config.piece_bytes // BLOCK_BYTES
    assert windowed.piece_blocks == windowed.config.piece_bytes  # it has no part that is brought before the last
    assert mixed.saved_blocks == windowed.saved_blocks == mixed.config.piece_bytes // (2 * BLOCK_BYTES)
    assert torch.equal(block(0, whole=True).data[:1], block(0, whole=False).data)
