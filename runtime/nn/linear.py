"""Products with a weight matrix, which is kept in the form that its device computes with fastest.

A matrix is read from its file plain, and filled in place; `Linear.pack` then puts another form in its place, one matrix
at a time, so that no second copy of the model ever exists.  How a model is used does not depend on the form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Product(Protocol):
    """A weight matrix in some form."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, the bias with it."""

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in]` to `[rows, out]`, of the dtype of `x`."""


# Makes a form of a plain weight, `[out, in]`, and its bias, `[out]`.
Form = Callable[[Tensor, Tensor | None], Product]


@dataclass(frozen=True, slots=True)
class Forms:
    """How a model's matrices are to be kept."""

    layers: Form
    head: Form


@dataclass(frozen=True, slots=True)
class Plain:
    """As it is in the file."""

    weight: Tensor  # [out, in]
    bias: Tensor | None

    @property
    def nbytes(self) -> int:
        return total_bytes(self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Blocked:
    """In the blocks that oneDNN reads in order: on the CPU, few rows go up to four times as fast (bench/LOG.md)."""

    # Of a large matrix the kernel takes four rows in less time than one or two; of a small one padding costs more.
    ROWS = 4
    LARGE = 2**20  # weights

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._rows = self.ROWS if weight.numel() >= self.LARGE else 0
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._bias = bias
        self.nbytes = total_bytes(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        if rows < self._rows:
            return self._product(F.pad(x, (0, 0, 0, self._rows - rows))).narrow(0, 0, rows)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return y


class Linear:
    """`x @ weight.T + bias`.

    Plain until it is packed; only then does it have a `weight` to be filled or looked at.
    """

    __slots__ = ("_product",)

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """`weight` is `[out, in]`, as `torch.nn.functional.linear` takes it."""
        self._product: Product = Plain(weight, bias)

    @property
    def weight(self) -> Tensor:
        """`[out, in]`."""
        return self._plain.weight

    @property
    def bias(self) -> Tensor | None:
        """`[out]`."""
        return self._plain.bias

    @property
    def nbytes(self) -> int:
        return self._product.nbytes

    def holds(self, weight: Tensor) -> bool:
        """Whether it computes with this very tensor."""
        return isinstance(self._product, Plain) and self._product.weight is weight

    def pack(self, form: Form) -> None:
        """Change the form; a matrix that was packed before, for another module that shares it, stays as it is."""
        if isinstance(self._product, Plain):
            self._product = form(self._product.weight, self._product.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in]` to `[rows, out]`."""
        return self._product(x)

    @property
    def _plain(self) -> Plain:
        assert isinstance(self._product, Plain), "packed weights cannot be looked at"
        return self._product


def total_bytes(*tensors: Tensor | None) -> int:
    """Of those that are there."""
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def lossless(device: torch.device, dtype: torch.dtype) -> Form:
    """The form that is fastest on this machine of those that keep every bit."""
    if dtype == torch.float32 and has_onednn(device):
        return Blocked
    # Without the arithmetic oneDNN would emulate it, and float16 it computes slowly.
    if dtype == torch.bfloat16 and has_bfloat16_products(device):
        return Blocked
    return Plain


def has_onednn(device: torch.device) -> bool:
    """Whether oneDNN's own forms of a matrix can be had; builds for Arm do not have them."""
    x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return device.type == "cpu" and x86 and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def has_bfloat16_products(device: torch.device) -> bool:
    """Whether oneDNN is there, and the processor has the arithmetic."""
    return has_onednn(device) and torch.ops.mkldnn._is_mkldnn_bf16_supported()
