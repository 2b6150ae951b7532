"""Attention of one segment over its slot's keys and values.

`scaled_dot_product_attention(enable_gqa=True)` copies K and V to the number of query heads on the CPU.  Here the query
heads of a group are viewed as so many more rows of their KV head, so that K and V are read in place, and once
(bench/LOG.md has the figures).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from runtime.step import Segment


# Rows of a chunk that are computed together; no tile reads keys that lie behind all of its rows.  512 rows from the
# start of a sequence take 10 ms instead of 14 in tiles of 64 or 128, 12 in tiles of 256 (bench/LOG.md).
TILE = 128


def first_visible(segment: Segment, window: int | None) -> int:
    """The first position that a segment's first row attends to; `window` counts the row itself."""
    return segment.first if window is None else max(segment.first, segment.start + 1 - window)


def chunk_mask(
    segment: Segment, window: int | None, group: int, device: torch.device, dtype: torch.dtype
) -> torch.Tensor | None:
    """Additive mask of a segment's rows over the keys from `first_visible(segment, window)` on.

    `[rows * group, keys]`: each row as often as a KV head has query heads.  None where no mask is needed: a single row
    sees all keys.  Shared by all layers of a step with this window.
    """
    if len(segment.token_ids) == 1:
        return None
    query = torch.arange(segment.start, segment.end, device=device)[:, None]
    key = torch.arange(first_visible(segment, window), segment.end, device=device)[None, :]
    hidden = key > query
    if window is not None:
        hidden |= key <= query - window
    mask = torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return mask[:, None].expand(-1, group, -1).reshape(-1, mask.shape[1])


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Softmax attention with grouped query heads.

    Args:
        query: `[rows, heads, head_dim]`.
        keys, values: `[kv_heads, length, head_dim]`.
        mask: `[rows * group, length]`, or None for a single row.

    Returns:
        `[rows, heads * head_dim]`.
    """
    rows, heads, head_dim = query.shape
    kv_heads, length, _ = keys.shape
    keys, values = keys.unsqueeze(0), values.unsqueeze(0)
    if rows == 1:
        own = query.view(1, kv_heads, -1, head_dim)
        return F.scaled_dot_product_attention(own, keys, values, attn_mask=None).view(1, heads * head_dim)
    assert mask is not None
    # [rows, heads, head_dim] to [1, kv_heads, rows * group, head_dim]
    grouped = query.view(rows, kv_heads, -1, head_dim).transpose(0, 1).reshape(1, kv_heads, -1, head_dim)
    tiles = []
    for first in range(0, rows, TILE):
        end = min(first + TILE, rows)
        seen = length - rows + end
        tile = slice(first * heads // kv_heads, end * heads // kv_heads)
        tiles.append(
            F.scaled_dot_product_attention(
                grouped[:, :, tile], keys[:, :, :seen], values[:, :, :seen], attn_mask=mask[tile, :seen]
            )
        )
    attended = torch.cat(tiles, dim=2) if len(tiles) > 1 else tiles[0]
    return attended.view(kv_heads, rows, -1, head_dim).transpose(0, 1).reshape(rows, heads * head_dim)
