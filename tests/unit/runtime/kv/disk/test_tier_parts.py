"""Blocks of a model whose windowed layers keep a ring: on disk with the rows of all layers, or without theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.kv.blocks import Block, root_key
from runtime.kv.disk.tier import DiskTier, open_disk_tier
from tests.fakes.kv_blocks import DTYPE, FILE_BYTES, LONG, PLENTY, ROOT, SHAPE, assert_same, chain, names, put_all

PART = (1, *SHAPE[1:])
PART_BYTES = FILE_BYTES - (FILE_BYTES - 4096) // 2


@contextmanager
def open_tier(folder: Path, budget: int = PLENTY) -> Iterator[DiskTier]:
    with open_disk_tier(folder, ROOT, shape=SHAPE, dtype=DTYPE, budget=budget, part=PART) as tier:
        yield tier
        tier.flush(LONG)
        tier.check_integrity()


def part_of(block: Block) -> Block:
    """Return a block without the rows of its second layer."""
    return replace(block, data=block.data[:1].contiguous(), whole=False)


def test_both_kinds_come_back_as_what_they_are(tmp_path: Path) -> None:
    first, second = chain(2)
    blocks = [part_of(first), second]
    with open_tier(tmp_path) as tier:
        put_all(tier, blocks)
        assert tier.statistics().bytes == PART_BYTES + FILE_BYTES
    with open_tier(tmp_path) as tier:
        assert tier.held([first.key, second.key]) == {first.key, second.key}
        assert tier.whole([first.key, second.key]) == {second.key}
        for block in blocks:
            loaded = tier.load(block.key)
            assert_same(loaded, block)
            assert loaded is not None
            assert loaded.whole == block.whole


def test_a_whole_block_takes_the_place_of_a_part(tmp_path: Path) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [part_of(block)])
        put_all(tier, [block])
        assert tier.whole([block.key]) == {block.key}
        assert tier.statistics().bytes == FILE_BYTES
        assert len(names(tmp_path)) == 1
        assert_same(tier.load(block.key), block)
        put_all(tier, [part_of(block)])  # which changes nothing
        assert_same(tier.load(block.key), block)


def test_a_whole_block_is_there_while_it_is_on_its_way(tmp_path: Path) -> None:
    first, second, third = chain(3)
    with open_tier(tmp_path) as tier:
        for block in (part_of(first), part_of(second), part_of(third), third, second, first):
            assert tier.put_nowait(block)
            assert (tier.whole([block.key]) == {block.key}) == block.whole
            loaded = tier.load(block.key)
            assert loaded is not None
            assert loaded.whole == block.whole


def test_what_is_dropped_is_gone_in_either_form(tmp_path: Path) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [part_of(block)])
        tier.put_nowait(block)
        tier.drop([block.key])
        tier.flush(LONG)
        assert tier.held([block.key]) == set()
        assert names(tmp_path) == set()


def test_parts_are_evicted_by_what_they_take(tmp_path: Path) -> None:
    blocks = [part_of(block) for block in chain(4)]
    with open_tier(tmp_path, budget=4 * PART_BYTES) as tier:
        put_all(tier, blocks)
        assert len(tier) == 4
        assert tier.statistics().evicted == 0


@pytest.mark.parametrize("whole", [True, False])
def test_a_tensor_that_is_not_what_its_block_says_is_refused(tmp_path: Path, *, whole: bool) -> None:
    (block,) = chain(1)
    wrong = replace(block if not whole else part_of(block), whole=whole)
    with open_tier(tmp_path) as tier, pytest.raises(ValueError, match="not a block of this model"):
        tier.put_nowait(wrong)


def test_files_of_a_model_with_rings_are_not_those_of_one_without() -> None:
    described = {"fingerprint": "f" * 64, "dtype": "float32", "kv_shape": SHAPE}
    roots = [root_key(**described, ringed=layers) for layers in ((), (0,), (1,), (0, 1))]  # type: ignore[arg-type]
    assert len(set(roots)) == 4
    assert roots[0] == ROOT
