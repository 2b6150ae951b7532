"""Products with a weight matrix, which is kept in the format that its device computes with fastest.

A matrix is made in its format before the next one is read, so that no second copy of the model ever exists.  How a
model is used does not depend on the format.

PyTorch has no public name for oneDNN's kernels; its version is pinned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.nn.matrices.panels import find_panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.stored import CodeFormat, GroupCodes
    from runtime.nn.matrices.panels import Panels


class WeightMatrix(Protocol):
    """A weight matrix, with its bias, in some format."""

    @property
    def form(self) -> str:
        """Format of its weights: `bfloat16`, `int8`, `int4 by 32`."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, the bias included."""

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`, of the dtype of `x`."""


# Converts a plain weight, `[out, in]`, and its bias, `[out]`.
MatrixFormat = Callable[[Tensor, Tensor | None], WeightMatrix]


class CodedFormat(Protocol):
    """A format that keeps a file's own codes."""

    def takes(self, outputs: int, inputs: int, codes: CodeFormat) -> bool:
        """Return whether it takes a matrix of this shape with such codes."""

    def __call__(self, codes: GroupCodes, bias: Tensor | None) -> WeightMatrix:
        """Convert codes, in host memory, and a bias, on the device."""


class NarrowFormat(Protocol):
    """A format that keeps plain weights in the file's 16 bits, for a model that computes in 32."""

    def takes(self, outputs: int, inputs: int) -> bool:
        """Return whether it takes a matrix of this shape."""

    def __call__(self, weight: Tensor, bias: Tensor | None) -> WeightMatrix:
        """Keep a weight, `[out, in]`, which may be shared, and a bias of 32 bits."""


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """The formats of a model's weights.

    Attributes:
        layers: of the layers' matrices that the files have in full.
        head: of the head, likewise.
        packed: of matrices that the files have in few bits, but for those of `coded`; None for the formats above.
        packed_head: of the head, where that is another.
        coded: of matrices whose codes it takes; None where codes are expanded.
        narrow: of plain matrices that have 16 bits in the files; None where they are brought to the model's dtype.
        small_embedding: whether an embedding that the files have in full becomes int8.
    """

    layers: MatrixFormat
    head: MatrixFormat
    packed: MatrixFormat | None = None
    packed_head: MatrixFormat | None = None
    coded: CodedFormat | None = None
    narrow: NarrowFormat | None = None
    small_embedding: bool = False


@dataclass(frozen=True, slots=True)
class PlainMatrix:
    """The matrix as it is in the file."""

    weight: Tensor  # [out, in]
    bias: Tensor | None  # [out]

    @property
    def form(self) -> str:
        """The dtype's name."""
        return dtype_name(self.weight.dtype)

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
        self.shape, self.dtype, self.bias = weight.shape, weight.dtype, bias
        self.form = dtype_name(weight.dtype)
        self.nbytes = total_bytes(weight, bias)

    @property
    def panels(self) -> Panels | None:
        """Place of the weight in memory, if it lies in panels."""
        return find_panels(self._weight)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x.shape[0]
        if rows < self._min_rows:
            return self._product(F.pad(x, (0, 0, 0, self._min_rows - rows))).narrow(0, 0, rows)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self.bias, "none", [], "")
        return y


class Linear:
    """`x @ weight.T + bias`.

    Args:
        matrices: the weight; several where its outputs are in several formats, one behind the other.
    """

    __slots__ = ("_matrices",)

    def __init__(self, *matrices: WeightMatrix) -> None:
        self._matrices = matrices

    @property
    def matrices(self) -> Sequence[WeightMatrix]:
        """The weight, in one format or in several."""
        return self._matrices

    @property
    def weight(self) -> Tensor:
        """The weight, `[out, in]`, which only a plain matrix has."""
        return self._plain.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias, `[out]`, likewise."""
        return self._plain.bias

    @property
    def form(self) -> str:
        """Format of its weights, with a comma between several."""
        return ", ".join(self.nbytes_by_form)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, the bias included."""
        return sum(matrix.nbytes for matrix in self._matrices)

    @property
    def nbytes_by_form(self) -> Counter[str]:
        """The same by the form of the weights."""
        sizes: Counter[str] = Counter()
        for matrix in self._matrices:
            sizes[matrix.form] += matrix.nbytes
        return sizes

    def shares(self, weight: Tensor) -> bool:
        """Return whether it computes with this very tensor."""
        return any(getattr(matrix, "weight", None) is weight for matrix in self._matrices)  # most formats have none

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        if len(self._matrices) == 1:
            return self._matrices[0](x)
        return torch.cat([matrix(x) for matrix in self._matrices], dim=-1)

    @property
    def _plain(self) -> PlainMatrix:
        (matrix,) = self._matrices
        assert isinstance(matrix, PlainMatrix), "a packed matrix has no plain weight"
        return matrix


def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype's name: `bfloat16`."""
    return str(dtype).removeprefix("torch.")


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
    """Return whether oneDNN's own formats of a matrix can be had on `device`; builds for Arm do not have them."""
    x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return device.type == "cpu" and x86 and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def has_bfloat16_products(device: torch.device) -> bool:
    """Return whether oneDNN is there, and the processor has bfloat16 arithmetic."""
    return has_onednn(device) and torch.ops.mkldnn._is_mkldnn_bf16_supported()
