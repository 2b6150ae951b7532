"""Causal convolution of each channel by itself, as layers have it that mix each row with the few before it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_conv(rows: Tensor, weight: Tensor, bias: Tensor | None, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return `out[t] = bias + sum over i of weight[:, i] * rows[t - (width - 1) + i]`, in the dtype of the rows.

    A row's numbers are the same, bit for bit, wherever the rows are cut.

    Args:
        rows: `[rows, channels]`.
        weight: `[channels, width]`; the last column is the row's own.
        bias: `[channels]`, or None.
        before: the `width - 1` rows before these, `[width - 1, channels]`; None where there are none: zeros.

    Returns:
        `[rows, channels]`, and all rows that were looked at, `[width - 1 + rows, channels]`: behind the first n of the
        given rows, the next call's `before` is `history[n : n + width - 1]`, a view.
    """
    taps = weight.float().t()
    past = len(taps) - 1
    history = F.pad(rows, (0, 0, past, 0)) if before is None else torch.cat([before, rows])
    out = taps.new_zeros(()) if bias is None else bias.float()
    for i, tap in enumerate(taps):
        out = torch.addcmul(out, history[i : i + len(rows)].float(), tap)
    return out.to(rows.dtype), history
