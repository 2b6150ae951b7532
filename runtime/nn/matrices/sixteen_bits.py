"""Plain weights of 16 bits for a model that computes in float32, as it does where a CPU has no arithmetic for bfloat16.

Few rows take as long as it takes to read the weights, which are half as many bytes so.  The kernels widen them as they
read; for many rows some outputs at a time are widened, and multiplied by PyTorch.  Nothing is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.devices.native.structures import LANES, MOST_ROWS, Kind, Matrix
from runtime.nn.matrices.linear import dtype_name, has_onednn, total_bytes
from runtime.nn.matrices.native_product import native_product

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.devices.native.kernels import Kernels

KINDS = {torch.bfloat16: Kind.ROWS_OF_BFLOAT16, torch.float16: Kind.ROWS_OF_FLOAT16}
SLAB = 2**20  # weights that are widened at a time


class SixteenBits:
    """A matrix of bfloat16 or float16 for rows of float32.

    Attributes:
        weight: `[out, in]`.
        bias: `[out]`, float32; None for none.

    Args:
        weight: of a shape that `takes`.
        bias: as the attribute.
        kernels: multiply few rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, kernels: Kernels) -> None:
        self.weight, self.bias = weight.contiguous(), bias
        self._kernels = kernels
        self._has_onednn = has_onednn(weight.device)
        self.form = dtype_name(weight.dtype)
        self.nbytes = total_bytes(self.weight, bias)

    @staticmethod
    def takes(outputs: int, inputs: int) -> bool:
        """Return whether the kernels take a matrix of this shape."""
        return outputs % LANES == inputs % LANES == 0

    @property
    def described(self) -> Matrix:
        """The same for kernels, without the bias; refers to this memory."""
        outputs, inputs = self.weight.shape
        return Matrix(kind=KINDS[self.weight.dtype], weight=self.weight.data_ptr(), out=outputs, in_=inputs)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply float32 `[rows, in]` to `[rows, out]`."""
        if x.shape[0] <= MOST_ROWS:
            y = native_product(self._kernels, x, self.described, None)
        else:
            y = self._by_widening(x)
        return y if self.bias is None else y.add_(self.bias)

    def _by_widening(self, x: Tensor) -> Tensor:
        y = x.new_empty(x.shape[0], self.weight.shape[0])
        step = max(1, SLAB // self.weight.shape[1])
        for slab, place in zip(torch.split(self.weight, step), torch.split(y, step, dim=1), strict=True):
            place.copy_(self._product(x, slab.float()))
        return y

    def _product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Multiply with a weight that is not packed: by oneDNN, which PyTorch would not take (bench/LOG.md)."""
        if not self._has_onednn:
            return F.linear(x, weight)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
        return y
