"""Formats of weight matrices in 8 and 4 bits: less to read at decode, and on the CPU faster products.

Weights are quantised when they are loaded.  That adds a quarter to the time that full ones take to be packed, and less
than reading adds where the file is not in memory (bench/LOG.md), so no copy is kept on disk.  A row of activations is
never quantised together with another: no request changes a neighbour's result.

int8 is symmetric, with a scale for each output.  int4 has a scale and a zero for each `GROUP` inputs of an output; the
head, to which the result is most sensitive, stays in int8, as in the formats of llama.cpp.

Where rows are quantised to 8 bits too, they are rotated first (`hadamard_rotate`): in trained models a few columns are
a hundred times as large as the others, which one scale for the row would round away (bench/LOG.md).

PyTorch has no public name for most of these kernels; its version is pinned.
"""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.nn.matrices.linear import WeightFormats, lossless_format, total_bytes
from runtime.nn.matrices.quantization import HADAMARD_BLOCK, Quantization

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import ScriptObject

    from runtime.nn.matrices.linear import MatrixFormat, WeightMatrix

GROUP = 32  # inputs that share a scale and a zero in int4
# From so many rows on, int4 weights are dequantised for the product: 512 rows take half the time (bench/LOG.md).
DEQUANTIZE_ROWS = 64
SLAB = 2**18  # weights that are quantised at a time
TINY = torch.finfo(torch.float32).tiny


def choose_formats(quantization: Quantization | None, device: torch.device, dtype: torch.dtype) -> WeightFormats:
    """Choose the formats of a model on `device` that computes in `dtype`; None is for full weights."""
    if quantization is None:
        plain = lossless_format(device, dtype)
        return WeightFormats(plain, plain)
    int8: MatrixFormat = DynamicInt8 if has_integer_products(device) else WeightInt8
    if quantization is Quantization.INT8:
        return WeightFormats(int8, int8)
    return WeightFormats(lambda weight, bias: _int4(weight, bias, int8), int8)


class DynamicInt8:
    """The CPU's 8 bits: rows are quantised as they come, and the product is one of integers.

    The kernel is FBGEMM's; for few rows it reads the weights in two thirds of the time that oneDNN's takes
    (bench/LOG.md).  It has one scale for all rows, so they are brought to a common one before, and back to their own
    after.  Rows and weights are rotated alike, which leaves their products as they are.

    Args:
        weight: `[out, in]`.
        bias: `[out]`.
    """

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

    Args:
        weight: `[out, in]`.
        bias: `[out]`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, scales = quantize_int8(weight)
        self._scales = scales.to(weight.dtype)
        self._bias = bias
        self.nbytes = total_bytes(self._weight, self._scales, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        y = torch._weight_int8pack_mm(x, self._weight, self._scales)
        return y if self._bias is None else y + self._bias


class CpuInt4:
    """The CPU's 4 bits: PyTorch's kernel for few rows, a dequantised copy for many, which costs them little.

    Args:
        weight: `[out, in]`, of a shape that the kernel takes.
        bias: `[out]`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantised, scales, zeros = quantize_int4(weight)
        self._weight = torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantised.int(), 1)
        self._scales_zeros = _scales_and_zeros(scales, zeros)
        self._bias = bias
        self._block = _int4_block(weight.shape[0])
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        if self._block is not None and x.shape[0] >= DEQUANTIZE_ROWS:
            y = x @ self._dequantized(self._block)
        else:
            y = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self._weight, GROUP, self._scales_zeros)
        return y if self._bias is None else y.add_(self._bias)

    def _dequantized(self, block: int) -> Tensor:
        """Unpack the weights to `[in, out]`, in the dtype of their scales.

        The kernel's layout has the outputs in blocks of `block`.  A byte has two outputs for one input: in its low half
        one of the block's first half, in its high half the one as far into the block's second half.
        """
        outputs = self._weight.shape[0]
        packed = self._weight.view(outputs // block, -1, block // 2)  # [blocks, in, block / 2]
        quantised = torch.cat((packed & 15, packed >> 4), dim=-1).transpose(0, 1).reshape(-1, outputs)  # [in, out]
        scales, zeros = self._scales_zeros.permute(2, 0, 1).contiguous()[:, :, None]  # [groups, 1, out] each
        # int8, which is as good below 16, is converted three times as fast.
        groups = quantised.view(torch.int8).to(scales.dtype).view(-1, GROUP, outputs)
        return groups.mul_(scales).add_(zeros - 8 * scales).view(-1, outputs)


class WeightInt4:
    """4 bits on MPS and CUDA: the kernel dequantises the weights as it reads them.

    Args:
        weight: `[out, in]`, of a shape that the kernel takes.
        bias: `[out]`.
    """

    TILES = 8  # tiles of 16 inputs each that CUDA's kernel wants side by side; MPS takes any number

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantised, scales, zeros = quantize_int4(weight)
        pairs = quantised[:, ::2] << 4 | quantised[:, 1::2]
        self._weight = torch.ops.aten._convert_weight_to_int4pack(pairs, self.TILES)
        self._scales_zeros = _scales_and_zeros(scales, zeros)
        self._bias = bias
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        y: Tensor = torch.ops.aten._weight_int4pack_mm(x, self._weight, GROUP, self._scales_zeros)
        return y if self._bias is None else y + self._bias


def _int4(weight: Tensor, bias: Tensor | None, otherwise: MatrixFormat) -> WeightMatrix:
    """Convert to four bits where the kernels take the shape, and to the format `otherwise` where they do not."""
    outputs, inputs = weight.shape
    if weight.device.type == "cpu":
        return CpuInt4(weight, bias) if outputs % 16 == 0 and inputs % (2 * GROUP) == 0 else otherwise(weight, bias)
    fits = outputs % 32 == 0 and inputs % (16 * WeightInt4.TILES) == 0
    return WeightInt4(weight, bias) if fits else otherwise(weight, bias)


def packed_bytes(outputs: int, inputs: int, dtype: torch.dtype, quantization: Quantization | None) -> int:
    """Estimate the bytes of a matrix in its format, without its bias and what a format of the CPU pads."""
    if quantization is None:
        return outputs * inputs * dtype.itemsize
    if quantization is Quantization.INT4 and outputs % 16 == 0 and inputs % (2 * GROUP) == 0:
        return outputs * (inputs // 2 + 2 * dtype.itemsize * inputs // GROUP)
    return outputs * (inputs + torch.float32.itemsize)


def has_integer_products(device: torch.device) -> bool:
    """Whether FBGEMM is there, and the processor adds up products of bytes without loss (AVX-512 VNNI)."""
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


def _int4_block(outputs: int) -> int | None:
    """Return how many outputs a block of the kernel's layout has; None for another layout, or if they do not fit."""
    block = {"AVX512": 64, "AVX2": 32}.get(torch.backends.cpu.get_cpu_capability())
    return block if block is not None and outputs % block == 0 else None


# --- the arithmetic -----------------------------------------------------------------------------------------------


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


def quantize_int4(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise to 4 bits.

    Args:
        weight: `[out, in]`, where `in` is a multiple of `GROUP`.

    Returns:
        0 to 15 in uint8, `[out, in]`; scales and zeros, each `[out, in / GROUP]` in the weight's dtype.  A weight is
        near `(quantised - 8) * scale + zero`, which is how PyTorch's kernels dequantise it.
    """
    quantised, scales, zeros = _by_slabs(_int4_slab, weight)
    return quantised, scales, zeros


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


def _int4_slab(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    groups = weight.view(weight.shape[0], -1, GROUP).float()
    smallest, largest = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scales = ((largest - smallest) / 15).clamp_(min=TINY).to(weight.dtype)
    zeros = (smallest + 8 * scales.float()).to(weight.dtype)
    quantised = ((groups - zeros.float()) / scales.float()).add_(8).round_().clamp_(0, 15)
    return quantised.to(torch.int8).view(torch.uint8).view(weight.shape), scales[..., 0], zeros[..., 0]


def _scales_and_zeros(scales: Tensor, zeros: Tensor) -> Tensor:
    """Interleave them as PyTorch's kernels take them, `[in / GROUP, out, 2]`."""
    return torch.stack((scales, zeros), dim=-1).transpose(0, 1).contiguous()
