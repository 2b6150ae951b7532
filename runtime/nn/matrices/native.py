"""Matrices as the kernels of `runtime.devices.native` read them: where they lie, so that nothing is kept twice."""

from __future__ import annotations

import logging
from ctypes import addressof
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from runtime.devices.native.structures import LANES, MOST_ROWS, Kind, Matrix
from runtime.nn.matrices.byte_products import ByteMatrix
from runtime.nn.matrices.int4 import CpuInt4
from runtime.nn.matrices.int8 import WeightInt8
from runtime.nn.matrices.linear import BlockedMatrix, PlainMatrix
from runtime.nn.matrices.native_product import DTYPES, native_product
from runtime.nn.matrices.panels import NARROW, PANEL
from runtime.nn.matrices.sixteen_bits import KINDS, SixteenBits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.devices.native.kernels import Kernels
    from runtime.nn.matrices.linear import Linear, WeightMatrix

logger = logging.getLogger("cede.model")

_ROWS = {torch.float32: Kind.ROWS_OF_FLOAT32} | KINDS
_PANELS = {
    (torch.float32, PANEL): Kind.PANELS_OF_FLOAT32,
    (torch.bfloat16, PANEL): Kind.PANELS_OF_BFLOAT16,
    (torch.bfloat16, NARROW): Kind.NARROW_PANELS_OF_BFLOAT16,
}


class NotInKernels(Exception):
    """Raised for what a layer has and the kernels do not."""


@dataclass(frozen=True, slots=True)
class NativeMatrix:
    """A matrix as it is described to the kernels.

    Attributes:
        described: refers to memory of the matrix and of `kept`.
        piece: outputs that are computed together.
        block: outputs of a block, which says what set of instructions it is for; None where any will do.
        kept: what nobody else keeps.
    """

    described: Matrix
    piece: int
    block: int | None = None
    kept: Tensor | None = None


def native_matrices(matrices: Sequence[WeightMatrix]) -> Sequence[NativeMatrix]:
    """Describe matrices of the same inputs, each of which refers to the next.

    Raises:
        NotInKernels: the kernels do not have a format, or one is not in whole pieces.
    """
    parts = [_native_matrix(matrix) for matrix in matrices]
    for part, following in pairwise(parts):
        part.described.next = addressof(following.described)
    return parts


def native_matrix(linear: Linear) -> NativeMatrix:
    """Describe a matrix in one format.

    Raises:
        NotInKernels: it is in several, or as `native_matrices` does.
    """
    parts = native_matrices(linear.matrices)
    if len(parts) != 1:
        raise NotInKernels("a matrix in several formats")
    return parts[0]


def _native_matrix(matrix: WeightMatrix) -> NativeMatrix:
    match matrix:
        case CpuInt4():
            own = _four_bits(matrix)
        case WeightInt8():
            own = _int8(matrix)
        case ByteMatrix():
            own = _with_bias(matrix.described, matrix.bias, matrix.OUTPUTS)
        case SixteenBits():
            own = _with_bias(matrix.described, matrix.bias, LANES)
        case PlainMatrix():
            own = _plain(matrix)
        case BlockedMatrix():
            own = _panels(matrix)
        case _:
            raise NotInKernels("weights in another format")
    if own.described.out % own.piece or own.described.in_ % LANES:
        raise NotInKernels("a matrix of another size")
    return own


class NativeLinear:
    """A product alone, such as the head's: the kernels compute it of few rows, and PyTorch of many.

    Args:
        linear: the product.
        dtype: of the rows.
        kernels: compute it.
        deterministic: whether they compute it of many rows, too, so that no row depends on its neighbours.

    Raises:
        NotInKernels: they cannot.
    """

    def __init__(self, linear: Linear, dtype: torch.dtype, kernels: Kernels, *, deterministic: bool = False) -> None:
        if dtype not in DTYPES:
            raise NotInKernels("another dtype")
        self._matrix = native_matrix(linear)
        if self._matrix.block is not None and self._matrix.block not in kernels.targets:
            raise NotInKernels("blocks of another size")
        self._linear = linear
        self._kernels = kernels
        self._deterministic = deterministic

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`; few rows to float32, which holds what the dtype of `x` can."""
        if 0 < x.shape[0] <= MOST_ROWS:
            return self._multiply(x)
        if self._deterministic and x.shape[0]:
            return torch.cat([self._multiply(x[i : i + MOST_ROWS]) for i in range(0, len(x), MOST_ROWS)])
        return self._linear(x)

    def _multiply(self, x: Tensor) -> Tensor:
        return native_product(self._kernels, x, self._matrix.described, self._matrix.block)


def native_head(
    head: Linear, dtype: torch.dtype, kernels: Kernels, *, deterministic: bool = False
) -> Linear | NativeLinear:
    """Return what computes a head: the kernels or, where they cannot, `head` itself, with a line in the log.

    Args:
        head: the product.
        dtype: of the rows.
        kernels: compute it.
        deterministic: whether the kernels are to compute all rows.

    Raises:
        NotInKernels: they are to, and cannot.
    """
    try:
        return NativeLinear(head, dtype, kernels, deterministic=deterministic)
    except NotInKernels as why:
        if deterministic:
            raise
        logger.info("the kernels do not compute the head: %s", why)
        return head


def _four_bits(matrix: CpuInt4) -> NativeMatrix:
    packed = matrix.packed
    if packed.group % LANES or packed.block is None:
        raise NotInKernels("groups of another size, or matrices not in whole blocks")
    return _with_bias(packed.described, packed.bias, packed.block, packed.block)


def _int8(matrix: WeightInt8) -> NativeMatrix:
    weight, scales = matrix.quantised
    if scales.dtype != torch.bfloat16:
        raise NotInKernels("scales of another dtype")
    if weight.shape[1] % (2 * LANES):  # which are multiplied at a time
        raise NotInKernels("a matrix of another size")
    own = _of(weight, Kind.ROWS_OF_INT8)
    own.scales = scales.data_ptr()
    return _with_bias(own, matrix.bias, LANES)


def _plain(matrix: PlainMatrix) -> NativeMatrix:
    kind = _ROWS.get(matrix.weight.dtype)
    if kind is None or not matrix.weight.is_contiguous():
        raise NotInKernels("weights of another dtype, or not in order")
    return _with_bias(_of(matrix.weight, kind), matrix.bias, LANES)


def _panels(matrix: BlockedMatrix) -> NativeMatrix:
    panels = matrix.panels
    kind = None if panels is None else _PANELS.get((matrix.dtype, panels.outputs))
    if panels is None or kind is None:
        raise NotInKernels("weights that oneDNN has packed otherwise")
    outputs, inputs = matrix.shape
    own = Matrix(kind=kind, weight=panels.address, out=outputs, in_=inputs)
    return _with_bias(own, matrix.bias, panels.outputs)


def _of(weight: Tensor, kind: Kind) -> Matrix:
    outputs, inputs = weight.shape
    return Matrix(kind=kind, weight=weight.data_ptr(), out=outputs, in_=inputs)


def _with_bias(own: Matrix, bias: Tensor | None, piece: int, block: int | None = None) -> NativeMatrix:
    if bias is None:
        return NativeMatrix(own, piece, block)
    kept = bias.float()
    own.bias = kept.data_ptr()
    return NativeMatrix(own, piece, block, kept)
