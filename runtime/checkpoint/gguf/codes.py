"""The 4-bit types of GGUF as they are: codes in groups of 32, each with a scale and a zero.

A block of Q4_0 or Q4_1 is one group; a block of Q4_K is eight, whose scales and minima are whole numbers of 6 bits
times two numbers of the block.  The layouts are those of `block_q4_0`, `block_q4_1` and `block_q4_K` in ggml
(https://github.com/ggml-org/ggml, src/ggml-common.h), and of `gguf.quants`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from runtime.checkpoint.stored import GroupCodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

GROUP = 32  # weights that share a scale and a zero, in all three types


def group_codes(kind: GGMLQuantizationType, blocks: NDArray[np.uint8]) -> GroupCodes:
    """Take rows of blocks apart into codes, scales and zeros.

    What they stand for is what `gguf.quants.dequantize` makes of the blocks: equal for Q4_0, and for the others up to
    the rounding of `zero`, a sum of two float32.

    Args:
        kind: a key of `FOUR_BIT_TYPES`.
        blocks: whole blocks, `[rows, bytes]`; they are copied, and may be a part of a mapped file.
    """
    whole = torch.from_numpy(np.array(blocks))
    rows = whole.shape[0]
    codes, scales, zeros = FOUR_BIT_TYPES[kind](whole.view(-1, GGML_QUANT_SIZES[kind][1]))
    return GroupCodes(codes.reshape(rows, -1), scales.reshape(rows, -1), zeros.reshape(rows, -1), GROUP)


def _q4_0(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take d, and 32 codes of which 8 stands for zero."""
    scales = _halves(blocks[:, :2])
    return _nibbles(blocks[:, 2:]), scales, torch.zeros_like(scales)


def _q4_1(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take d, the smallest weight m, and 32 codes: a weight is d * code + m."""
    scales = _halves(blocks[:, :2])
    return _nibbles(blocks[:, 4:]), scales, _halves(blocks[:, 2:4]) + 8 * scales


def _q4_k(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take d, dmin, eight scales and minima of 6 bits, and 256 codes: a weight is d * scale * code - dmin * minimum."""
    # The low 6 bits of bytes 0 to 3 are scales 0 to 3, and of bytes 4 to 7 minima 0 to 3.  The other four of each have
    # their low 4 bits in bytes 8 to 11, scales below minima, and the high 2 in what was left of bytes 0 to 7.
    first, second, low = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat((first & 63, low & 15 | first >> 2 & 48), dim=1)
    minima = torch.cat((second & 63, low >> 4 | second >> 2 & 48), dim=1)
    wide = _halves(blocks[:, :2]) * scales
    return _nibbles(blocks[:, 16:]), wide, 8 * wide - _halves(blocks[:, 2:4]) * minima


# What takes blocks apart, `[blocks, bytes]` to codes, scales and zeros, `[blocks, …]` each.
FOUR_BIT_TYPES: Mapping[GGMLQuantizationType, Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]] = {
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
    GGMLQuantizationType.Q4_K: _q4_k,
}


def _halves(data: Tensor) -> Tensor:
    """Return the float16 in bytes, `[blocks, 2]`, as float32 `[blocks, 1]`."""
    return data.contiguous().view(torch.float16).float()


def _nibbles(data: Tensor) -> Tensor:
    """Return the codes in bytes: of each run of bytes for two groups first the low halves, then the high ones.

    Q4_0 and Q4_1 have 16 bytes for their one group, whose two halves lie in this order; Q4_K has 32 for two groups.
    """
    run = min(GROUP, data.shape[1])
    runs = data.reshape(data.shape[0], -1, run)
    return torch.stack((runs & 15, runs >> 4), dim=2)
