"""Small blocks for the tests of the KV tiers: what a block holds is a function of its key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from runtime.blocks import BLOCK_TOKENS, Block, BlockKey, block_key, root_key

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (2, 2, 1, BLOCK_TOKENS, 8)
DTYPE = torch.float32
ROOT = root_key(fingerprint="f" * 64, dtype="float32", kv_shape=SHAPE)
OTHER_ROOT = root_key(fingerprint="e" * 64, dtype="float32", kv_shape=SHAPE)
FILE_BYTES = 4096 + 2 * 2 * BLOCK_TOKENS * 8 * 4


def make_block(seed: int, parent: BlockKey = ROOT, shape: tuple[int, ...] = SHAPE) -> Block:
    """The block of tokens made from `seed` after `parent`."""
    tokens = tuple((seed * 1000 + place) % 2**32 for place in range(BLOCK_TOKENS))
    key = block_key(parent, tokens)
    return Block(key, parent, tokens, data_of(key, shape))


def data_of(key: BlockKey, shape: tuple[int, ...] = SHAPE) -> torch.Tensor:
    """The rows that belong to `key`, and to no other."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(int.from_bytes(key[:7], "little")))


def chain(length: int, seed: int = 0, root: BlockKey = ROOT) -> list[Block]:
    """The blocks of one sequence."""
    blocks: list[Block] = []
    for index in range(length):
        blocks.append(make_block(seed + index, blocks[-1].key if blocks else root))
    return blocks


def assert_same(loaded: Block | None, block: Block) -> None:
    """`loaded` is `block`, to the bit."""
    assert loaded is not None
    assert (loaded.key, loaded.parent, loaded.token_ids) == (block.key, block.parent, block.token_ids)
    assert loaded.data.dtype == block.data.dtype
    assert loaded.data.is_contiguous()
    assert torch.equal(loaded.data, block.data)


def names(folder: Path, root: BlockKey = ROOT) -> set[str]:
    """What lies in a root's folder."""
    return set(os.listdir(folder / root.hex()))
