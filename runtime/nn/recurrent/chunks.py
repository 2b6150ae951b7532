"""Rows in chunks: within a chunk all pairs of rows are computed at once, from chunk to chunk goes the state alone."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64
"""Rows of a chunk: a row costs products with all rows of its chunk, a chunk some with the state."""


def chunk_length(rows: int) -> int:
    """Return how many rows a chunk of these has: a power of two."""
    return min(CHUNK, 1 << (rows - 1).bit_length())


def split(x: Tensor, length: int) -> Tensor:
    """Return `[rows, ..., size]` as float32 `[chunks, ..., length, size]`, filled up with rows of zeros."""
    filled = F.pad(x.float(), (0, 0) * (x.dim() - 1) + (0, -len(x) % length))
    return filled.unflatten(0, (-1, length)).movedim(1, -2).contiguous()


def join(x: Tensor, rows: int) -> Tensor:
    """Return `[chunks, ..., length, size]` as `[rows, ..., size]`, without what was filled up."""
    return x.movedim(-2, 1).flatten(0, 1)[:rows]


def pair_decays(total: Tensor) -> Tensor:
    """Return what is left of a chunk's row `j` at its row `i`, `[..., length, length]`; zero where `j > i`.

    Args:
        total: sums of the logarithms of decays from the chunk's start to each row, `[..., length, 1]`.
    """
    later = torch.ones(total.shape[-2], total.shape[-2], dtype=torch.bool, device=total.device).triu(1)
    return (total - total.mT).masked_fill_(later, -math.inf).exp_()
