"""Causal convolution of each channel by itself, in layers that mix a row with the few before it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_conv(rows: Tensor, weight: Tensor, bias: Tensor | None, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return `out[t] = bias + sum over i < width of weight[:, i] * rows[t - (width - 1) + i]`, and the rows for later.

    A row's numbers are the same, bit for bit, wherever the rows are cut.

    Args:
        rows: `[rows, channels]`; or several sequences, `[sequences, rows, channels]`.
        weight: `[channels, width]`; the last column is the row's own.
        bias: `[channels]`, or None.
        before: the `width - 1` rows before these, `[..., width - 1, channels]`; zeros for None, at the beginning.

    Returns:
        What becomes of the rows, of their shape and dtype; and the rows with those before them, `history`: behind the
        first n of the rows, the next `before` is `history[..., n : n + width - 1, :]`.
    """
    taps = weight.float().t()
    count, past = rows.shape[-2], len(taps) - 1
    history = F.pad(rows, (0, 0, past, 0)) if before is None else torch.cat([before, rows], -2)
    out = torch.zeros((), device=rows.device) if bias is None else bias.float()
    for i, tap in enumerate(taps):
        out = torch.addcmul(out, history[..., i : i + count, :].float(), tap)
    return out.to(rows.dtype), history
