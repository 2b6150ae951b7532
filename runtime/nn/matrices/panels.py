"""Layout of a weight that oneDNN has packed: in panels of outputs, which the kernels read in place, or otherwise.

oneDNN does not say so in words that are public, so a matrix that it describes in the same bytes is packed, and looked
at.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

PANEL = 64  # outputs
NARROW = 32  # outputs of a panel where the processor has AMX
_PAIR = {torch.float32: 1, torch.bfloat16: 2}  # neighbouring inputs of an output that lie side by side


@dataclass(frozen=True, slots=True)
class Panels:
    """A packed weight, `[out / outputs, in / pair, outputs, pair]`.

    Attributes:
        address: where it is in memory, which oneDNN's tensor keeps.
        outputs: of a panel.
    """

    address: int
    outputs: int


def find_panels(weight: Tensor) -> Panels | None:
    """Return where a packed weight, `[out, in]`, from oneDNN, is; None if it lies otherwise, or is padded."""
    outputs, inputs = weight.shape
    pair = _PAIR.get(weight.dtype)
    if pair is None or inputs % pair or _memory_bytes(weight) != outputs * inputs * weight.itemsize:
        return None
    width = _panel_width(outputs, inputs, weight.dtype, _description(weight))
    return None if width is None else Panels(int(torch.ops.mkldnn.data_ptr(weight)), width)


@cache
def _panel_width(outputs: int, inputs: int, dtype: torch.dtype, description: bytes) -> int | None:
    """Return the outputs of a panel of what oneDNN describes so; random numbers are in their places by no accident."""
    plain = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(1)).to(dtype)
    packed = torch.ops.mkldnn._reorder_linear_weight(plain, None)
    if _description(packed) != description:
        return None
    size = _memory_bytes(packed)
    memory = (ctypes.c_byte * size).from_address(int(torch.ops.mkldnn.data_ptr(packed)))
    numbers = torch.frombuffer(memory, dtype=dtype)
    return next((width for width in (PANEL, NARROW) if _are_panels(numbers, plain, width)), None)


def _are_panels(numbers: Tensor, plain: Tensor, width: int) -> bool:
    """Return whether `numbers` are those of `[out, in]` in panels of so many outputs."""
    outputs, inputs = plain.shape
    if outputs % width:
        return False
    pair = _PAIR[plain.dtype]
    panels = numbers.view(outputs // width, inputs // pair, width, pair)
    rows = plain.view(outputs // width, width, inputs // pair, pair).transpose(1, 2)
    return all(torch.equal(own, expected) for own, expected in zip(panels, rows, strict=True))


def _memory_bytes(weight: Tensor) -> int:
    return int(torch.ops.mkldnn._nbytes(weight))


def _description(weight: Tensor) -> bytes:
    return bytes(torch.ops.mkldnn._get_mkldnn_serialized_md(weight).tolist())
