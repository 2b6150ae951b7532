"""Rounding weights to 8 and 4 bits, and spreading rows evenly before.

int8 is symmetric, with a scale for each output, or for each group of an embedding's columns.  int4 has a scale and a
zero for each `GROUP` inputs of an output.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.checkpoint.stored import GroupCodes
from runtime.nn.matrices.quantization import HADAMARD_BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 32  # inputs that share a scale and a zero in int4
SLAB = 2**18  # weights that are quantised at a time
TINY = torch.finfo(torch.float32).tiny


@cache
def hadamard_matrix(columns: int) -> Tensor:
    """Return the normalised Hadamard matrix, `[size, size]`, that rotates rows of so many columns; its own inverse.

    `size` is the largest power of two up to `HADAMARD_BLOCK` that divides `columns`; it is 1 where they are odd.
    """
    matrix: Tensor = torch.ones(1, 1)
    while matrix.shape[0] < HADAMARD_BLOCK and columns % (2 * matrix.shape[0]) == 0:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    return matrix.mul_(matrix.shape[0] ** -0.5)


def hadamard_rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate rows `[rows, in]` in blocks of columns, so that each number is spread over its block.

    The product of two rows that are rotated alike is that of the rows (Ashkboos et al., "QuaRot", arXiv 2404.00456).

    Args:
        x: `[rows, in]`; not changed.
        rotation: from `hadamard_matrix`.

    Returns:
        `[rows, in]`, float32.
    """
    return torch.mm(x.float().reshape(-1, rotation.shape[0]), rotation).view(x.shape)


def quantize_int8(weight: Tensor, rotation: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Quantise to 8 bits.

    Args:
        weight: `[out, in]`.
        rotation: is applied to the weight first, as by `hadamard_rotate`; None for none.

    Returns:
        int8 `[out, in]`, and the scale of each output, float32 `[out]`.  Their product is near the weight.
    """
    quantised, scales = _by_slabs(partial(_int8_slab, rotation=rotation), weight)
    return quantised, scales


def quantize_int4(weight: Tensor, dtype: torch.dtype) -> GroupCodes:
    """Quantise to 4 bits, in groups of `GROUP`.

    Args:
        weight: `[out, in]`, where `in` is a multiple of `GROUP`.
        dtype: that scales and zeros are kept in; they are rounded to it before the codes are chosen.
    """
    codes, scales, zeros = _by_slabs(partial(_int4_slab, dtype=dtype), weight)
    return GroupCodes(codes, scales, zeros, GROUP)


def _by_slabs(quantise: Callable[[Tensor], tuple[Tensor, ...]], weight: Tensor) -> list[Tensor]:
    """Quantise a few outputs at a time, so that the float32 in between stays in the cache, and join the parts."""
    wholes: list[Tensor] = []
    done = 0
    for slab in torch.split(weight, max(1, SLAB // weight.shape[1])):
        parts = quantise(slab)
        # Each part is copied to its place at once: a list of all parts would be a second copy of the whole.
        wholes = wholes or [part.new_empty((weight.shape[0], *part.shape[1:])) for part in parts]
        for whole, part in zip(wholes, parts, strict=True):
            whole[done : done + slab.shape[0]] = part
        done += slab.shape[0]
    return wholes


def _int8_slab(weight: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = weight.float() if rotation is None else hadamard_rotate(weight, rotation)
    scales = (wide.abs().amax(1) / 127).clamp_(min=TINY)
    return (wide / scales[:, None]).round_().to(torch.int8), scales


def _int4_slab(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    groups = weight.view(weight.shape[0], -1, GROUP).float()
    smallest, largest = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scales = ((largest - smallest) / 15).clamp_(min=TINY).to(dtype).float()
    zeros = (smallest + 8 * scales).to(dtype).float()
    codes = ((groups - zeros) / scales).add_(8).round_().clamp_(0, 15)
    return codes.to(torch.int8).view(torch.uint8).view(weight.shape), scales[..., 0], zeros[..., 0]
