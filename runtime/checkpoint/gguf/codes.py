"""Types of GGUF as they are: codes of 4 or 6 bits in groups, each with a scale and a zero.

A block of Q4_0 or Q4_1 is one group of 32; a block of Q4_K is eight, whose scales and minima are whole numbers of 6
bits times two numbers of the block.  A block of Q6_K is sixteen groups of 16, whose scales are whole numbers of 8 bits
times a number of the block.  A block of MXFP4 is 32 numbers, which six bits hold as they are, with one scale.  The
layouts are those of `block_q4_0`, `block_q4_1`, `block_q4_K`, `block_q6_K` and `block_mxfp4` in ggml
(https://github.com/ggml-org/ggml, src/ggml-common.h), and of `gguf.quants`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from runtime.checkpoint.folder.microscaling import half_powers, six_bits
from runtime.checkpoint.stored import GroupCodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from runtime.checkpoint.stored import CodeFormat

GROUP = 32  # weights that share a scale and a zero, in all three types of 4 bits


def group_codes(kind: GGMLQuantizationType, own: CodeFormat, blocks: NDArray[np.uint8]) -> GroupCodes:
    """Take rows of blocks apart into codes, scales and zeros.

    What they stand for is what `gguf.quants.dequantize` makes of the blocks: equal for Q4_0, Q6_K and MXFP4, and for
    the others up to the rounding of `zero`, a sum of two float32.

    Args:
        kind: a key of `CODED_TYPES`.
        own: its format.
        blocks: whole blocks, `[rows, bytes]`; they are copied, and may be a part of a mapped file.
    """
    whole = torch.from_numpy(np.array(blocks))
    rows = whole.shape[0]
    parts = CODED_TYPES[kind](whole.view(-1, GGML_QUANT_SIZES[kind][1]))
    codes, scales, zeros = (part.reshape(rows, -1) for part in parts)
    return GroupCodes(codes, scales, zeros, own.group, own.bits)


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


def _q6_k(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take sixteen scales of 8 bits, d, and 256 codes of which 32 stands for zero."""
    # Of each half of the codes the low four bits lie in 64 bytes, whose low halves are the first 64 of them; the high
    # two in 32 bytes, each of which has those of four codes, 32 apart.
    low = _runs(blocks[:, :128], 64, (0, 4), 15)  # [blocks, 2, 2, 64]
    high = _runs(blocks[:, 128:192], 32, (0, 2, 4, 6), 3)  # [blocks, 2, 4, 32]
    scales = blocks[:, 192:208].contiguous().view(torch.int8).float() * _halves(blocks[:, 208:210])
    return low.reshape(-1, 256) | high.reshape(-1, 256) << 4, scales, torch.zeros_like(scales)


def _mxfp4(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take an exponent, and 32 numbers, of whose two groups of 16 it is the scale."""
    scales = half_powers(blocks[:, :1]).repeat(1, 2)
    return six_bits(_nibbles(blocks[:, 1:])), scales, torch.zeros_like(scales)


# What takes blocks apart, `[blocks, bytes]` to codes, scales and zeros, `[blocks, …]` each.
CODED_TYPES: Mapping[GGMLQuantizationType, Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]] = {
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
    GGMLQuantizationType.Q4_K: _q4_k,
    GGMLQuantizationType.Q6_K: _q6_k,
    GGMLQuantizationType.MXFP4: _mxfp4,
}


def _halves(data: Tensor) -> Tensor:
    """Return the float16 in bytes, `[blocks, 2]`, as float32 `[blocks, 1]`."""
    return data.contiguous().view(torch.float16).float()


def _nibbles(data: Tensor) -> Tensor:
    """Return the codes in bytes: of each run of bytes for two groups first the low halves, then the high ones.

    Q4_0 and Q4_1 have 16 bytes for their one group, whose two halves lie in this order; Q4_K has 32 for two groups.
    """
    return _runs(data, min(GROUP, data.shape[1]), (0, 4), 15)


def _runs(data: Tensor, run: int, shifts: tuple[int, ...], mask: int) -> Tensor:
    """Take runs of `run` bytes apart: of each first all its bits from the first shift on, and so on.

    Returns:
        `[blocks, runs, shifts, run]`.
    """
    runs = data.reshape(data.shape[0], -1, run)
    return torch.stack([runs >> shift & mask for shift in shifts], dim=2)
