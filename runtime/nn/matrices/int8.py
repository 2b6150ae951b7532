"""Weight matrices in 8 bits, with a scale for each output.

Where rows are quantised to 8 bits too, they are rotated first (`hadamard_rotate`): in trained models a few columns are
a hundred times as large as the others, which one scale for the row would round away (bench/LOG.md).

PyTorch has no public name for most of these kernels; its version is pinned.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.nn.matrices.arithmetic import TINY, hadamard_matrix, hadamard_rotate, quantize_int8
from runtime.nn.matrices.linear import has_bfloat16_products, total_bytes

if TYPE_CHECKING:
    from torch import ScriptObject

INT8 = "int8"

# Of more rows weights are expanded for the product, where that is the processor's own: 512 take two fifths of the time
# (bench/LOG.md).
MOST_IN_KERNEL = 32
SLAB = 4096  # outputs that are expanded at a time


class DynamicInt8:
    """The CPU's 8 bits: rows are quantised as they come, and the product is one of integers.

    The kernel is FBGEMM's; for few rows it reads the weights in two thirds of the time that oneDNN's takes
    (bench/LOG.md).  `ByteInt8` stands in its place where cede's own kernels are.  It has one scale for all rows, so
    they are brought to a common one before, and back to their own after.  Rows and weights are rotated alike, which
    leaves their products as they are.

    Args:
        weight: `[out, in]`.
        bias: `[out]`.
    """

    form = INT8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._rotation = hadamard_matrix(weight.shape[1])
        quantised, scales = quantize_int8(weight, self._rotation)
        self._weight = _fbgemm_weight(quantised, scales)
        self._bias = bias
        self.nbytes = total_bytes(quantised, scales, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        even = hadamard_rotate(x, self._rotation)  # [rows, in], float32
        largest = even.abs().amax(-1, keepdim=True).clamp_(min=TINY)  # [rows, 1]
        # The kernel rounds to the nearest of 0 to 255, of which 128 is zero.
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            even.div_(largest), 1 / 127, 128, self._weight
        )
        y = y.mul_(largest).to(x.dtype)
        return y if self._bias is None else y.add_(self._bias)


class WeightInt8:
    """8 bits where no product of integers pays: the kernel dequantises the weights as it reads them.

    Attributes:
        MULTIPLES: what the kernel of a type of device takes multiples of, outputs and inputs.  MPS' refuses others, and
            the CPU's reads past its rows.

    Args:
        weight: `[out, in]`.
        bias: `[out]`.
    """

    MULTIPLES: ClassVar = {"cpu": (1, 16), "mps": (32, 32)}
    form = INT8

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._dtype = kernel_dtype(weight.device, weight.dtype)
        self._weight, scales = quantize_int8(weight)
        self._scales = scales.to(self._dtype)
        self._bias = bias
        multiples = self.MULTIPLES.get(weight.device.type, (1, 1))
        self._has_kernel = all(size % multiple == 0 for size, multiple in zip(weight.shape, multiples, strict=True))
        self._expands = has_bfloat16_products(weight.device)
        self.nbytes = total_bytes(self._weight, self._scales, bias)

    @property
    def quantised(self) -> tuple[Tensor, Tensor]:
        """The weight, int8 `[out, in]`, and the scale of each output, `[out]`, in what the kernel computes in."""
        return self._weight, self._scales

    @property
    def bias(self) -> Tensor | None:
        """The bias, `[out]`."""
        return self._bias

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x.to(self._dtype)
        if self._has_kernel and not (self._expands and rows.shape[0] > MOST_IN_KERNEL):
            y = torch._weight_int8pack_mm(rows, self._weight, self._scales)
        else:
            y = self._by_expanding(rows)
        y = y.to(x.dtype)
        return y if self._bias is None else y + self._bias

    def _by_expanding(self, rows: Tensor) -> Tensor:
        slabs = zip(torch.split(self._weight, SLAB), torch.split(self._scales, SLAB), strict=True)
        return torch.cat([F.linear(rows, weight.to(self._dtype)) * scales for weight, scales in slabs], dim=-1)


def kernel_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Return what kernels that dequantise weights as they read them compute in, for a model of `dtype`.

    PyTorch's for the CPU are vectorised for bfloat16 alone: in float32 and float16 a product takes 6 to 35 times as
    long (bench/LOG.md), and rounding rows and results costs a fiftieth of what four bits do.  CUDA's take nothing else.
    """
    return dtype if device.type == "mps" else torch.bfloat16


def has_integer_products(device: torch.device) -> bool:
    """Return whether FBGEMM is there (not on Arm), and adds up products of bytes without loss (AVX-512 VNNI)."""
    return (
        device.type == "cpu"
        and "fbgemm" in torch.backends.quantized.supported_engines
        and torch.cpu._is_vnni_supported()
    )


def _fbgemm_weight(quantised: Tensor, scales: Tensor) -> ScriptObject:
    """Pack `[out, in]` in int8, with the scale of each output, in FBGEMM's own layout."""
    zeros = torch.zeros_like(scales, dtype=torch.int64)
    with warnings.catch_warnings():
        # PyTorch has deprecated tensors that know their scale, but 2.13 has no other way to this kernel.
        warnings.simplefilter("ignore", UserWarning)
        scaled = torch._make_per_channel_quantized_tensor(quantised, scales.double(), zeros, 0)
    packed: ScriptObject = torch.ops.quantized.linear_prepack(scaled, None)
    return packed
