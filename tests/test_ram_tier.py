"""Blocks in host memory."""

from __future__ import annotations

import pytest

from runtime.ram_tier import RamTier
from tests.kv_blocks import chain

BLOCKS = 4


@pytest.mark.parametrize("length", [BLOCKS + 1, 2 * BLOCKS, 5 * BLOCKS])
def test_of_a_chain_that_is_longer_than_the_budget_the_start_is_kept(length: int) -> None:
    blocks, others = chain(length), chain(2, seed=100)
    tier = RamTier(BLOCKS * blocks[0].nbytes)
    for block in (*others, *blocks):
        tier.insert(block)
    assert [block.key in tier for block in blocks] == [True] * BLOCKS + [False] * (length - BLOCKS)
    tier.check_integrity()

    for block in blocks:  # nor does using it again change that
        tier.insert(block)
    assert [block.key in tier for block in blocks[:BLOCKS]] == [True] * BLOCKS


def test_a_chain_that_was_refused_does_not_keep_others_out() -> None:
    blocks, others = chain(2 * BLOCKS), chain(BLOCKS, seed=100)
    tier = RamTier(BLOCKS * blocks[0].nbytes)
    for block in (*blocks, *others):
        tier.insert(block)
    assert all(block.key in tier for block in others)
    tier.check_integrity()
