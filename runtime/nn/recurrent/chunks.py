"""Rows in chunks: all pairs of rows of a chunk are computed at once, and only states go from chunk to chunk.

Decays are logarithms, none above zero, so no exponential of their sums is above one.  Each sum is taken over its own
rows: a difference of two long sums would lose what is small.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

CHUNK = 64
"""Most rows of a chunk, a power of two: each costs products with all rows of the chunk, each chunk some with states."""


def chunk_length(rows: int) -> int:
    """Return how many rows the chunks have that so many rows are cut into: a power of two."""
    return min(CHUNK, 1 << (rows - 1).bit_length())


def split(x: Tensor, length: int) -> Tensor:
    """Return `[rows, ..., size]` as `[chunks, ..., length, size]`, float32, the last chunk filled up with zeros."""
    filled = F.pad(x.float(), (0, 0) * (x.dim() - 1) + (0, -len(x) % length))
    return filled.reshape(-1, length, *x.shape[1:]).movedim(1, -2).contiguous()


def join(x: Tensor, rows: int) -> Tensor:
    """Return `[chunks, ..., length, size]` as `[rows, ..., size]`, without what filled up the last chunk."""
    return x.movedim(-2, 1).flatten(0, 1)[:rows]


def decay_before(decay: Tensor) -> Tensor:
    """Return how far what was there before a chunk has decayed at each row: `[..., length, size]`, as is the decay."""
    return decay.cumsum(-2).exp_()


def decay_behind(decay: Tensor) -> Tensor:
    """Return how far each row will have decayed at the chunk's last: `[..., length, size]`, as is the decay."""
    return F.pad(decay[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2).exp_()


def decay_between(decay: Tensor) -> Tensor:
    """Return how far row j of a chunk has decayed at row i, `[..., i, j]`, zero for j > i; decay is `[..., 1]`."""
    rows = decay.shape[-2]
    return decay.expand(*decay.shape[:-1], rows).tril(-1).cumsum(-2).exp_().tril_()
