"""Attention written out one query head and one row at a time, in float64."""

from __future__ import annotations

import math

import torch

from runtime.step.step import Segment

DIM = 8
PAST = 40  # positions in the slot


def chunk_of(start: int, rows: int, first: int = 0) -> Segment:
    """Return a segment of that many rows."""
    return Segment(0, start, [1] * rows, first=first)


def visible_from(position: int, window: int | None) -> list[int]:
    """Return the positions that a row attends to: itself and what is before it, as far as the window reaches."""
    return [p for p in range(position + 1) if window is None or position - p < window]


def textbook(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    start: int,
    window: int | None,
    *,
    scale: float | None = None,
    softcap: float = math.inf,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend: `[rows, heads * head_dim]`; `query` as `attend` takes it, `keys` and `values` from position 0 on."""
    rows, heads, dim = query.shape
    group = heads // keys.shape[0]
    attended = torch.zeros(rows, heads, dim, dtype=torch.float64)
    for row in range(rows):
        visible = visible_from(start + row, window)
        for head in range(heads):
            k, v = keys[head // group, visible].double(), values[head // group, visible].double()
            scores = k @ query[row, head].double() * (scale or dim**-0.5)
            capped = scores if softcap == math.inf else softcap * torch.tanh(scores / softcap)
            if sinks is not None:
                capped, v = torch.cat((capped, sinks[head : head + 1].double())), torch.cat((v, torch.zeros(1, dim)))
            weights = torch.softmax(capped, dim=0)
            attended[row, head] = weights @ v
    return attended.reshape(rows, heads * dim).float()
