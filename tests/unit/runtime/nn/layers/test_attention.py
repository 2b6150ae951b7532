"""Attention against the textbook's, written out one query head and one row at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from runtime.nn.layers.attention import MASK_ALIGNMENT, TILE, attend, first_visible, step_mask
from runtime.nn.layers.tiles import sdpa_tile
from tests.models.layers.textbook import DIM, PAST, chunk_of, textbook, visible_from
from tests.models.step_driver import CPU
from tests.rows import every_row


@every_row("heads, kv_heads", [(4, 4), (4, 2), (6, 2), (5, 1)])
@every_row("window", [None, 1, 4, 16, 100])
@every_row("start, rows", [(0, 1), (0, 9), (5, 1), (5, 2), (17, 1), (17, 20), (39, 1), (0, 40)])
def test_attention_is_the_textbook_s(heads: int, kv_heads: int, window: int | None, start: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(rows, heads, DIM, generator=generator)
    keys, values = torch.randn(2, kv_heads, PAST, DIM, generator=generator)
    seen = slice(first_visible(chunk_of(start, rows), window), start + rows)
    mask = step_mask([chunk_of(start, rows)], window, heads // kv_heads, CPU, torch.float32)
    attended = attend(query, keys[:, seen], values[:, seen], mask)
    torch.testing.assert_close(attended, textbook(query, keys, values, start, window), atol=1e-5, rtol=1e-5)


@every_row("window", [None, 1, 2, 7, 64])
@every_row("start, rows", [(0, 2), (0, 30), (3, 5), (20, 13)])
def test_a_mask_hides_all_but_the_visible(start: int, rows: int, window: int | None) -> None:
    first = first_visible(chunk_of(start, rows), window)
    assert first == visible_from(start, window)[0]
    mask = step_mask([chunk_of(start, rows)], window, 1, CPU, torch.float32)
    assert mask is not None
    assert mask.shape[0] == rows
    mask = mask[:, -(start + rows - first) :]
    assert set(mask.flatten().tolist()) <= {0.0, float("-inf")}
    for row in range(rows):
        assert [first + key for key in (mask[row] == 0).nonzero()[:, 0].tolist()] == visible_from(start + row, window)


def test_a_mask_grows_with_the_depth_and_not_with_the_rows() -> None:
    """2048 rows after 32 thousand tokens had one of 0.9 GiB, which no plan of the memory knew of."""
    group, depth = 7, 32_000
    masks = [step_mask([chunk_of(depth, rows)], None, group, CPU, torch.bfloat16) for rows in (TILE, 2048)]
    sizes = [mask.nbytes for mask in masks if mask is not None]
    assert sizes[1] - sizes[0] == (2048 - TILE) * TILE * group * 2
    assert sizes[1] < 2**26


def test_segments_of_all_sizes_share_a_mask() -> None:
    generator = torch.Generator().manual_seed(6)
    chunks = [chunk_of(0, 2), chunk_of(39, 1), chunk_of(7, TILE + 5), chunk_of(60, 9, first=50)]
    mask = step_mask(chunks, 20, 2, CPU, torch.float32)
    for chunk in chunks:
        query = torch.randn(len(chunk.token_ids), 4, DIM, generator=generator)
        keys, values = torch.randn(2, 2, chunk.end, DIM, generator=generator)
        seen = slice(first_visible(chunk, 20), chunk.end)
        alone = step_mask([chunk], 20, 2, CPU, torch.float32)
        expected = attend(query, keys[:, seen], values[:, seen], alone)
        assert torch.equal(attend(query, keys[:, seen], values[:, seen], mask), expected)
        if chunk.first == 0:
            written_out = textbook(query, keys, values, chunk.start, 20)
            torch.testing.assert_close(expected, written_out, atol=1e-5, rtol=1e-5)


def test_no_tile_s_mask_looks_aligned() -> None:
    """CUDA's kernel would then read it where it lies, at an address that may not be."""
    for depth in range(40):
        mask = step_mask([chunk_of(depth, 5)], None, 1, CPU, torch.float32)
        assert mask is not None
        assert mask.stride(0) % MASK_ALIGNMENT == 1


def test_a_mask_has_each_row_once_per_query_head_of_a_group() -> None:
    once, thrice = (step_mask([chunk_of(3, 5)], 4, group, CPU, torch.float32) for group in (1, 3))
    assert once is not None
    assert thrice is not None
    assert torch.equal(thrice, once.repeat_interleave(3, dim=0))


@pytest.mark.parametrize("window", [None, 1, 3])
def test_a_single_row_needs_no_mask(window: int | None) -> None:
    """What it may not see is not among its keys."""
    assert step_mask([chunk_of(12, 1)], window, 1, CPU, torch.float32) is None
    assert list(range(first_visible(chunk_of(12, 1), window), 13)) == visible_from(12, window)


@pytest.mark.parametrize(("window", "expected"), [(None, 5), (3, 10), (100, 5)])
def test_what_lies_before_the_first_position_is_not_seen(window: int | None, expected: int) -> None:
    chunk = chunk_of(12, 4, first=5)
    assert first_visible(chunk, window) == expected
    mask = step_mask([chunk], window, 1, CPU, torch.float32)
    assert mask is not None
    mask = mask[:, -(16 - expected) :]
    assert mask.shape == (4, 16 - expected)
    assert mask[0, 12 - expected] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_mask_has_the_dtype_of_the_query(dtype: torch.dtype) -> None:
    query, keys = torch.ones(3, 2, DIM, dtype=dtype), torch.ones(1, 3, DIM, dtype=dtype)
    mask = step_mask([chunk_of(0, 3)], None, 2, CPU, dtype)
    assert attend(query, keys, keys, mask).dtype == dtype


def test_the_inputs_may_be_views_of_a_slot() -> None:
    kv = torch.randn(2, 3, 2, PAST, DIM, generator=torch.Generator().manual_seed(2))  # as the cache lays them out
    query = torch.randn(4, 6, DIM, generator=torch.Generator().manual_seed(3))[:, :4]  # as query and key heads share
    keys, values = kv[:, 1, :, 3:10]
    mask = step_mask([chunk_of(6, 4)], 4, 2, CPU, torch.float32)
    attended = attend(query, keys, values, mask)
    assert torch.equal(attended, attend(query.contiguous(), keys.contiguous(), values.contiguous(), mask))


@pytest.mark.parametrize("rows", [1, 4])
def test_a_kernel_may_lay_out_its_result_as_it_likes(rows: int) -> None:
    """PyTorch's on CUDA gives float32 with the heads innermost."""

    def inside_out(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return sdpa_tile(query, keys, values, mask).transpose(1, 2).contiguous().transpose(1, 2)

    generator = torch.Generator().manual_seed(4)
    query = torch.randn(rows, 6, DIM, generator=generator)
    keys, values = torch.randn(2, 2, PAST, DIM, generator=generator)
    mask = step_mask([chunk_of(PAST - rows, rows)], None, 3, CPU, torch.float32)
    assert torch.equal(attend(query, keys, values, mask, inside_out), attend(query, keys, values, mask))
