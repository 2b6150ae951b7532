"""Forms of weight matrices in 8 and 4 bits: less to read at decode, and on the CPU faster products.

Weights are quantised when they are loaded.  That adds a quarter to the time that full ones take to be packed, and less
than reading adds where the file is not in memory (bench/LOG.md), so no copy is kept on disk.  A row of activations is
never quantised together with another: no request changes a neighbour's result.

int8 is symmetric, with a scale for each output.  int4 has a scale and a zero for each `GROUP` inputs of an output; the
head, to which the result is most sensitive, stays in int8, as in the formats of llama.cpp.

Where rows are brought to 8 bits too, they are spread first (`spread`): in trained models a few columns are a hundred
times as large as the others, which one scale for the row would round away (bench/LOG.md).
"""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.nn.linear import Forms, lossless, total_bytes
from runtime.nn.quantization import SPREAD, Quantization

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import ScriptObject

    from runtime.nn.linear import Form, Product

GROUP = 32
# From so many rows on, int4 weights are expanded for the product: 512 rows take half the time (bench/LOG.md).
EXPAND_ROWS = 64
SLAB = 2**18  # weights that are quantised at a time
TINY = torch.finfo(torch.float32).tiny


def choose_forms(quantization: Quantization | None, device: torch.device, dtype: torch.dtype) -> Forms:
    """How a model on `device` that computes in `dtype` is to keep its matrices."""
    if quantization is None:
        plain = lossless(device, dtype)
        return Forms(plain, plain)
    int8: Form = DynamicInt8 if has_integer_products(device) else WeightInt8
    if quantization is Quantization.INT8:
        return Forms(int8, int8)
    return Forms(lambda weight, bias: _int4(weight, bias, int8), int8)


class DynamicInt8:
    """On the CPU: rows are quantised as they come, and the product is one of integers.

    FBGEMM's, which few rows get their weights from in two thirds of the time that oneDNN's takes (bench/LOG.md).  It
    has one scale for all rows, so they are brought to a common one before, and back to their own after.  Rows and
    weights are spread alike, which leaves their products as they are.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._turn = spreading(weight.shape[1])
        quantised, scales = quantise_int8(weight, self._turn)
        self._weight = _fbgemm_weight(quantised, scales)
        self._bias = bias
        self.nbytes = total_bytes(quantised, scales, bias)

    def __call__(self, x: Tensor) -> Tensor:
        even = spread(x, self._turn)
        largest = even.abs().amax(-1, keepdim=True).clamp_(min=TINY)  # [rows, 1]
        # It rounds to the nearest of 0 to 255, of which 128 is zero.
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            even.div_(largest), 1 / 127, 128, self._weight
        )
        y = y.mul_(largest).to(x.dtype)
        return y if self._bias is None else y.add_(self._bias)


class WeightInt8:
    """Where no product of integers pays: the kernel expands the weights as it reads them."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, scales = quantise_int8(weight)
        self._scales = scales.to(weight.dtype)
        self._bias = bias
        self.nbytes = total_bytes(self._weight, self._scales, bias)

    def __call__(self, x: Tensor) -> Tensor:
        y = torch._weight_int8pack_mm(x, self._weight, self._scales)
        return y if self._bias is None else y + self._bias


class HostInt4:
    """On the CPU: few rows take PyTorch's kernel, many an expanded copy, which costs them little."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantised, scales, zeros = quantise_int4(weight)
        self._weight = torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantised.int(), 1)
        self._scales_zeros = _scales_and_zeros(scales, zeros)
        self._bias = bias
        self._block = _int4_block(weight.shape[0])
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        if self._block is not None and x.shape[0] >= EXPAND_ROWS:
            y = x @ self._expanded(self._block)
        else:
            y = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self._weight, GROUP, self._scales_zeros)
        return y if self._bias is None else y.add_(self._bias)

    def _expanded(self, block: int) -> Tensor:
        """`[in, out]`.

        The kernel has the outputs in blocks; a byte holds, of one input, an output of a block's first half and, above
        it, the one as far into its second.
        """
        outputs = self._weight.shape[0]
        packed = self._weight.view(outputs // block, -1, block // 2)  # [blocks, in, block / 2]
        quantised = torch.cat((packed & 15, packed >> 4), dim=-1).transpose(0, 1).reshape(-1, outputs)  # [in, out]
        scales, zeros = self._scales_zeros.permute(2, 0, 1).contiguous()[:, :, None]  # [groups, 1, out] each
        # As int8, which is as good below 16, it is converted three times as fast.
        groups = quantised.view(torch.int8).to(scales.dtype).view(-1, GROUP, outputs)
        return groups.mul_(scales).add_(zeros - 8 * scales).view(-1, outputs)


class WeightInt4:
    """On MPS and CUDA: the kernel expands the weights as it reads them."""

    TILES = 8  # along the inputs, of 16 columns each, that CUDA's kernel wants side by side; MPS takes any

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantised, scales, zeros = quantise_int4(weight)
        pairs = quantised[:, ::2] << 4 | quantised[:, 1::2]
        self._weight = torch.ops.aten._convert_weight_to_int4pack(pairs, self.TILES)
        self._scales_zeros = _scales_and_zeros(scales, zeros)
        self._bias = bias
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm(x, self._weight, GROUP, self._scales_zeros)
        return y if self._bias is None else y + self._bias


def _int4(weight: Tensor, bias: Tensor | None, otherwise: Form) -> Product:
    """Four bits where the kernels take such a shape, and otherwise eight."""
    outputs, inputs = weight.shape
    if weight.device.type == "cpu":
        return HostInt4(weight, bias) if outputs % 16 == 0 and inputs % (2 * GROUP) == 0 else otherwise(weight, bias)
    fits = outputs % 32 == 0 and inputs % (16 * WeightInt4.TILES) == 0
    return WeightInt4(weight, bias) if fits else otherwise(weight, bias)


def packed_bytes(outputs: int, inputs: int, dtype: torch.dtype, quantization: Quantization | None) -> int:
    """Bytes of a matrix in its form, its bias aside, but for a few where a form of the CPU pads it."""
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
    """`[out, in]` in int8, with the scale of each output, in FBGEMM's own layout."""
    zeros = torch.zeros_like(scales, dtype=torch.int64)
    with warnings.catch_warnings():
        # PyTorch means to do away with tensors that know their scale, but 2.13 has no other way in.
        warnings.simplefilter("ignore", UserWarning)
        scaled = torch._make_per_channel_quantized_tensor(quantised, scales.double(), zeros, 0)
    packed: ScriptObject = torch.ops.quantized.linear_prepack(scaled, None)
    return packed


def _int4_block(outputs: int) -> int | None:
    """How many outputs the kernel's layout has in a block; None where it has another form, or they do not fit."""
    block = {"AVX512": 64, "AVX2": 32}.get(torch.backends.cpu.get_cpu_capability())
    return block if block is not None and outputs % block == 0 else None


# --- the arithmetic -----------------------------------------------------------------------------------------------


@cache
def spreading(columns: int) -> Tensor:
    """What `spread` multiplies rows of so many columns by: a Hadamard matrix over its norm, its own inverse.

    It has at most `SPREAD` columns, and as many as divide those of the rows: a single one where they are odd.
    """
    matrix: Tensor = torch.ones(1, 1)
    while matrix.shape[0] < SPREAD and columns % (2 * matrix.shape[0]) == 0:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    return matrix.mul_(matrix.shape[0] ** -0.5)


def spread(x: Tensor, turn: Tensor) -> Tensor:
    """Rows `[rows, in]` in float32, turned so that each number is shared by the columns of its block; a new tensor.

    A turn leaves products of two rows that are spread alike as they were (Ashkboos et al., "QuaRot", arXiv 2404.00456).
    """
    return torch.mm(x.float().reshape(-1, turn.shape[0]), turn).view(x.shape)


def quantise_int8(weight: Tensor, turn: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`[out, in]` as int8, and the scale of each output, float32 `[out]`; their product is near `weight`.

    With `turn`, near what `spread` makes of it.
    """
    quantised, scales = _by_slabs(partial(_int8_slab, turn=turn), weight)
    return quantised, scales


def quantise_int4(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`[out, in]` as 0 to 15 in uint8; scales and zeros, each `[out, in / GROUP]` in the weight's dtype.

    A weight is near `(quantised - 8) * scale + zero`, as PyTorch's kernels expand it.
    """
    quantised, scales, zeros = _by_slabs(_int4_slab, weight)
    return quantised, scales, zeros


def _by_slabs(quantise: Callable[[Tensor], tuple[Tensor, ...]], weight: Tensor) -> list[Tensor]:
    """What `quantise` makes of a few outputs at a time: what lies between in float32 stays in the cache."""
    wholes: list[Tensor] = []
    done = 0
    for slab in torch.split(weight, max(1, SLAB // weight.shape[1])):
        parts = quantise(slab)
        # Each is put where it belongs at once: in a list of their own, all of them would be there twice.
        wholes = wholes or [part.new_empty((weight.shape[0], *part.shape[1:])) for part in parts]
        for whole, part in zip(wholes, parts, strict=True):
            whole[done : done + slab.shape[0]] = part
        done += slab.shape[0]
    return wholes


def _int8_slab(weight: Tensor, turn: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = weight.float() if turn is None else spread(weight, turn)
    scales = (wide.abs().amax(1) / 127).clamp_(min=TINY)
    return (wide / scales[:, None]).round_().to(torch.int8), scales


def _int4_slab(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    groups = weight.view(weight.shape[0], -1, GROUP).float()
    least, most = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scales = ((most - least) / 15).clamp_(min=TINY).to(weight.dtype)
    zeros = (least + 8 * scales.float()).to(weight.dtype)
    quantised = ((groups - zeros.float()) / scales.float()).add_(8).round_().clamp_(0, 15)
    return quantised.to(torch.int8).view(torch.uint8).view(weight.shape), scales[..., 0], zeros[..., 0]


def _scales_and_zeros(scales: Tensor, zeros: Tensor) -> Tensor:
    """`[in / GROUP, out, 2]`, as PyTorch's kernels take them."""
    return torch.stack((scales, zeros), dim=-1).transpose(0, 1).contiguous()
