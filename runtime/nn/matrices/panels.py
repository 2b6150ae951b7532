"""How oneDNN has packed a weight: in panels of outputs, which the kernels read where they lie, or otherwise.

oneDNN does not say so in words that are public, so a matrix that it describes in the same bytes is packed, and looked
at.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

PANEL = 64  # outputs
_PAIR = {torch.float32: 1, torch.bfloat16: 2}  # neighbouring inputs of an output that lie side by side


def panel_address(weight: Tensor) -> int | None:
    """Return where a packed weight, `[out, in]`, is in memory, as `[out / PANEL, in / pair, PANEL, pair]`.

    Args:
        weight: from oneDNN; it keeps the memory.

    Returns:
        The address; None if the weight lies otherwise, or is padded.
    """
    outputs, inputs = weight.shape
    pair = _PAIR.get(weight.dtype)
    if pair is None or outputs % PANEL or inputs % pair or _memory_bytes(weight) != outputs * inputs * weight.itemsize:
        return None
    found = _lies_in_panels(outputs, inputs, weight.dtype, _description(weight))
    return int(torch.ops.mkldnn.data_ptr(weight)) if found else None


@cache
def _lies_in_panels(outputs: int, inputs: int, dtype: torch.dtype, description: bytes) -> bool:
    """Whether what oneDNN describes so lies in panels; random numbers are found in their places by no accident."""
    plain = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(1)).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(plain, None)
    if _description(packed) != description:
        return False
    size = _memory_bytes(packed)
    memory = (ctypes.c_byte * size).from_address(int(torch.ops.mkldnn.data_ptr(packed)))
    pair = _PAIR[dtype]
    panels = torch.frombuffer(memory, dtype=dtype).view(outputs // PANEL, inputs // pair, PANEL, pair)
    rows = plain.view(outputs // PANEL, PANEL, inputs // pair, pair).transpose(1, 2)
    return all(torch.equal(own, expected) for own, expected in zip(panels, rows, strict=True))


def _memory_bytes(weight: Tensor) -> int:
    return int(torch.ops.mkldnn._nbytes(weight))


def _description(weight: Tensor) -> bytes:
    return bytes(torch.ops.mkldnn._get_mkldnn_serialized_md(weight).tolist())
