"""Products with a weight matrix, which is kept in the format that its device computes with fastest.

A matrix is read from its file plain, and filled in place; `Linear.pack` then replaces it by another format, one matrix
at a time, so that no second copy of the model ever exists.  How a model is used does not depend on the format.

PyTorch has no public name for oneDNN's kernels; its version is pinned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class WeightMatrix(Protocol):
    """A weight matrix, with its bias, in some format."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, the bias included."""

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`, of the dtype of `x`."""


# Converts a plain weight, `[out, in]`, and its bias, `[out]`.
MatrixFormat = Callable[[Tensor, Tensor | None], WeightMatrix]


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """The formats of a model's matrices: those of the layers, and the head's."""

    layers: MatrixFormat
    head: MatrixFormat


@dataclass(frozen=True, slots=True)
class PlainMatrix:
    """The matrix as it is in the file."""

    weight: Tensor  # [out, in]
    bias: Tensor | None  # [out]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, the bias included."""
        return total_bytes(self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        return F.linear(x, self.weight, self.bias)


class BlockedMatrix:
    """The matrix in the blocks that oneDNN reads in order: on the CPU, few rows are up to four times as fast.

    The figures are in bench/LOG.md.

    Args:
        weight: `[out, in]`.
        bias: `[out]`.
    """

    # Of a large matrix the kernel takes four rows in less time than one or two; of a small one padding costs more.
    MIN_ROWS = 4
    LARGE = 2**20  # weights

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._min_rows = self.MIN_ROWS if weight.numel() >= self.LARGE else 0
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._bias = bias
        self.nbytes = total_bytes(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x.shape[0]
        if rows < self._min_rows:
            return self._product(F.pad(x, (0, 0, 0, self._min_rows - rows))).narrow(0, 0, rows)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return y


class Linear:
    """`x @ weight.T + bias`.

    The matrix is plain until it is packed; only a plain one has a `weight` to be filled or looked at.

    Args:
        weight: `[out, in]`, as `torch.nn.functional.linear` takes it.
        bias: `[out]`.
    """

    __slots__ = ("_matrix",)

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._matrix: WeightMatrix = PlainMatrix(weight, bias)

    @property
    def weight(self) -> Tensor:
        """The plain weight, `[out, in]`."""
        return self._plain.weight

    @property
    def bias(self) -> Tensor | None:
        """The plain bias, `[out]`."""
        return self._plain.bias

    @property
    def nbytes(self) -> int:
        """Bytes of memory, the bias included."""
        return self._matrix.nbytes

    def shares(self, weight: Tensor) -> bool:
        """Whether it computes with this very tensor."""
        return isinstance(self._matrix, PlainMatrix) and self._matrix.weight is weight

    def pack(self, matrix_format: MatrixFormat) -> None:
        """Change the format; a matrix that is packed already, for a module that shares it, stays as it is."""
        if isinstance(self._matrix, PlainMatrix):
            self._matrix = matrix_format(self._matrix.weight, self._matrix.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        return self._matrix(x)

    @property
    def _plain(self) -> PlainMatrix:
        assert isinstance(self._matrix, PlainMatrix), "a packed matrix has no plain weight"
        return self._matrix


def total_bytes(*tensors: Tensor | None) -> int:
    """Add up the bytes of `tensors`; None has none."""
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def lossless_format(device: torch.device, dtype: torch.dtype) -> MatrixFormat:
    """Choose the fastest on this machine of the formats that keep every bit."""
    if dtype == torch.float32 and has_onednn(device):
        return BlockedMatrix
    # bfloat16 needs the processor's own arithmetic, or oneDNN would emulate it; float16 it computes slowly.
    if dtype == torch.bfloat16 and has_bfloat16_products(device):
        return BlockedMatrix
    return PlainMatrix


def has_onednn(device: torch.device) -> bool:
    """Whether oneDNN's own formats of a matrix can be had on `device`; builds for Arm do not have them."""
    x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return device.type == "cpu" and x86 and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def has_bfloat16_products(device: torch.device) -> bool:
    """Whether oneDNN is there, and the processor has bfloat16 arithmetic."""
    return has_onednn(device) and torch.ops.mkldnn._is_mkldnn_bf16_supported()
