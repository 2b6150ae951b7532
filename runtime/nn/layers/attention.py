"""Attention of one segment over its slot's keys and values.

`scaled_dot_product_attention(enable_gqa=True)` copies K and V to the number of query heads on the CPU.  Here the query
heads of a group are viewed as so many more rows of their KV head, so that K and V are read in place, and once
(bench/LOG.md has the figures).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.nn.layers.tiles import sdpa_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.nn.layers.tiles import TileKernel
    from runtime.step.step import Segment


# Rows of a chunk that are computed together; no tile reads keys that lie behind all of its rows.  512 rows from the
# start of a sequence take 10 ms instead of 14 in tiles of 64 or 128, 12 in tiles of 256 (bench/LOG.md).
TILE = 128

# CUDA's kernel takes a mask as it is where its rows lie a multiple of this many numbers apart, and then expects it to
# begin at such an address, too.  Rows that lie one number further apart are copied by PyTorch instead.
MASK_ALIGNMENT = 16


def first_visible(segment: Segment, window: int | None) -> int:
    """Return the first position that a segment's first row attends to; `window` counts the row itself."""
    return segment.first if window is None else max(segment.first, segment.start + 1 - window)


def step_mask(
    segments: Sequence[Segment], window: int | None, group: int, device: torch.device, dtype: torch.dtype
) -> torch.Tensor | None:
    """Build the additive mask of a tile's rows over its keys, for every tile of every segment of a step.

    Which keys a row sees depends on how many rows and keys lie behind it, nothing else.  So a tile's own mask is the
    last of the rows and keys of this one, and its size grows with the depth of the step, not with its rows.  All layers
    of a step with this window share it.

    Args:
        segments: the step's.
        window: how many positions a row sees, itself included; None for all before it.
        group: query heads of a KV head.
        device: where the mask is made.
        dtype: that of the queries.

    Returns:
        `[tile rows * group, keys]`: each row as often as a KV head has query heads.  None where no mask is needed: a
        single row sees all keys.
    """
    rows = min(TILE, max(len(segment.token_ids) for segment in segments))
    if rows == 1:
        return None
    keys = max(segment.end - first_visible(segment, window) for segment in segments)
    keys += -keys % MASK_ALIGNMENT + 1
    query = torch.arange(keys - rows, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)[None, :]
    hidden = key > query
    if window is not None:
        hidden |= key <= query - window
    mask = torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return mask[:, None].expand(-1, group, -1).reshape(-1, keys)


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    tile_kernel: TileKernel = sdpa_tile,
) -> torch.Tensor:
    """Compute softmax attention with grouped query heads.

    Args:
        query: `[rows, heads, head_dim]`.
        keys: `[kv_heads, length, head_dim]`.
        values: likewise.
        mask: as `step_mask` makes it; not looked at for a single row.
        tile_kernel: computes a tile; see `choose_tile_kernel`.

    Returns:
        `[rows, heads * head_dim]`.
    """
    rows, heads, head_dim = query.shape
    kv_heads, length, _ = keys.shape
    keys, values = keys.unsqueeze(0), values.unsqueeze(0)
    if rows == 1:
        return tile_kernel(query.view(1, kv_heads, -1, head_dim), keys, values, None).reshape(1, heads * head_dim)
    assert mask is not None, "several rows have a mask"
    group = heads // kv_heads
    # [rows, heads, head_dim] to [1, kv_heads, rows * group, head_dim]
    grouped = query.view(rows, kv_heads, -1, head_dim).transpose(0, 1).reshape(1, kv_heads, -1, head_dim)
    tiles = []
    for first in range(0, rows, TILE):
        end = min(first + TILE, rows)
        seen = length - rows + end
        own = grouped[:, :, first * group : end * group]
        own_mask = mask[mask.shape[0] - own.shape[2] :, mask.shape[1] - seen :]
        tiles.append(tile_kernel(own, keys[:, :, :seen], values[:, :, :seen], own_mask))
    attended = torch.cat(tiles, dim=2) if len(tiles) > 1 else tiles[0]
    return attended.view(kv_heads, rows, -1, head_dim).transpose(0, 1).reshape(rows, heads * head_dim)
