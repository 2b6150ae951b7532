"""Attention of one segment over its slot's keys and values.

`scaled_dot_product_attention(enable_gqa=True)` copies K and V to the number of query heads on the CPU.  Neither path
here does: at decode the query group is viewed as rows of its KV head, which reads K and V once; over a prefill chunk
the group becomes a batch dimension over which K and V are expanded with stride 0 (bench/LOG.md has the figures).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from runtime.step import Segment


def first_visible(segment: Segment, window: int | None) -> int:
    """The first position that a segment's first row attends to; `window` counts the row itself."""
    return segment.first if window is None else max(segment.first, segment.start + 1 - window)


def chunk_mask(segment: Segment, window: int | None, device: torch.device, dtype: torch.dtype) -> torch.Tensor | None:
    """Additive mask `[rows, keys]` of a segment's rows, over the keys from `first_visible(segment, window)` on.

    None where no mask is needed: a single row sees all of them.  Shared by all layers of a step with this window.
    """
    if len(segment.token_ids) == 1:
        return None
    query = torch.arange(segment.start, segment.end, device=device)[:, None]
    key = torch.arange(first_visible(segment, window), segment.end, device=device)[None, :]
    hidden = key > query
    if window is not None:
        hidden |= key <= query - window
    return torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, float("-inf"))


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Softmax attention with grouped query heads.

    Args:
        query: `[rows, heads, head_dim]`.
        keys, values: `[kv_heads, length, head_dim]`.
        mask: `[rows, length]`, or None for a single row.

    Returns:
        `[rows, heads * head_dim]`.
    """
    rows, heads, head_dim = query.shape
    kv_heads = keys.shape[0]
    group = heads // kv_heads
    if rows == 1:
        grouped = query.reshape(1, kv_heads, group, head_dim)
        return F.scaled_dot_product_attention(grouped, keys[None], values[None]).view(1, heads * head_dim)
    # [group, kv_heads, rows, head_dim]
    grouped = query.reshape(rows, kv_heads, group, head_dim).permute(2, 1, 0, 3)
    attended = F.scaled_dot_product_attention(
        grouped, keys.expand(group, -1, -1, -1), values.expand(group, -1, -1, -1), attn_mask=mask
    )
    return attended.permute(2, 1, 0, 3).reshape(rows, heads * head_dim)
