"""Prefix caches to be tested, with a disk that is a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

from actors.core.slot_views import Resident
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from actors.kv.waiting_blocks import SlotBlock
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys
from runtime.kv.disk.tier import DiskTierStatistics
from runtime.kv.token_chain import TokenChain
from tests.fakes.kv_simulation import (
    BLOCK_BYTES,
    ROOT,
    SettledDisk,
    pack,
    text,
)

TOKENS = text(300, 1)
KEYS = block_keys(ROOT, TOKENS)


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
        """Return those of the keys that it has."""
        return {key for key in keys if key in self.blocks}

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of the keys that it has with the rows of all layers."""
        return {key for key in keys if key in self.blocks and self.blocks[key].whole}

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return each block's parent."""
        return {key: block.parent for key, block in self.blocks.items()}

    def put_nowait(self, block: Block) -> bool:
        """Keep a block, if there is room."""
        if len(self.blocks) >= self.room:
            return False
        self.blocks[block.key] = block
        return True

    def take_refused(self) -> list[BlockKey]:
        """Return what was refused since the last call."""
        refused, self.refused = self.refused, []
        return refused

    def watch_losses(self, wake: Callable[[], object] | None) -> None:
        """It loses nothing by itself."""

    def take_lost(self) -> list[BlockKey]:
        """Return nothing."""
        return []

    def load(self, key: BlockKey) -> Block | None:
        """Return a block, None if it cannot be read."""
        self.asked.append(key)
        if key in self.unreadable:
            self.drop([key])
        return self.blocks.get(key)

    def drop(self, keys: Collection[BlockKey]) -> None:
        """Forget these blocks."""
        for key in keys:
            self.blocks.pop(key, None)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note that these were used."""
        self.touched.append(list(keys))

    def statistics(self) -> DiskTierStatistics:
        """Return how many blocks there are, and no other figure."""
        return DiskTierStatistics(len(self.blocks), 0, 0, 0, 0, 0, 0, 0, 0, {}, 0, False)


def cache_with(*, ram: int = 100, disk: FakeDisk | SettledDisk | None = None, audit_share: float = 0.0) -> PrefixCache:
    """Return a cache with room for so many blocks in memory, and this disk."""
    config = CacheConfig(audit_share=audit_share)
    return PrefixCache(ROOT, BLOCK_BYTES, ram=ram * BLOCK_BYTES, disk=disk, config=config, seed=1)


def rows(place: int) -> torch.Tensor:
    """Return the KV of a block at that place."""
    return pack(range(1000 * place, 1000 * place + BLOCK_TOKENS))


def slot_block(place: int, tokens: Sequence[int] = TOKENS) -> SlotBlock:
    """Return the block at that place of a slot with these tokens."""
    keys = block_keys(ROOT, tokens)
    start = place * BLOCK_TOKENS
    return SlotBlock(keys[place], [ROOT, *keys][place], start, tuple(tokens[start : start + BLOCK_TOKENS]))


def keep(cache: PrefixCache, *places: int, slot: int = 0) -> None:
    """Keep the blocks at these places of a slot."""
    for place in places:
        cache.keep(slot, slot_block(place), rows(place))


def resident(tokens: Sequence[int], *stands_on: BlockKey) -> Resident:
    """Return what a slot holds that has these tokens."""
    return Resident(TokenChain(ROOT, tokens), stands_on=frozenset(stands_on))
