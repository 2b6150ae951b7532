"""The formats of a model's matrices, by what was asked for, the device, and what the files have.

Plain weights are kept in full unless less is asked for.  Quantised ones keep their codes where a kernel takes them;
others become int8.  The head, to which the result is most sensitive, is never made four bits that it was not in the
file: it stays in int8, as in the formats of llama.cpp.

Weights are quantised when they are loaded.  That adds a quarter to the time that full ones take to be packed, and less
than reading adds where the file is not in memory (bench/LOG.md), so no copy is kept on disk.  A row of activations is
never quantised together with another: no request changes a neighbour's result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch

from runtime.checkpoint.stored import PLAIN_FORMS, CodeFormat
from runtime.nn.matrices.arithmetic import GROUP, quantize_int4
from runtime.nn.matrices.byte_products import ByteCodes, ByteInt8
from runtime.nn.matrices.embedding import Int4Embedding
from runtime.nn.matrices.int4 import CpuInt4, WeightInt4
from runtime.nn.matrices.int8 import INT8, DynamicInt8, WeightInt8, has_integer_products, kernel_dtype
from runtime.nn.matrices.linear import WeightFormats, lossless_format
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.matrices.sixteen_bits import SixteenBits

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.stored import GroupCodes, StoredTensor
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.matrices.linear import MatrixFormat, WeightMatrix


# Of what a matrix's sizes are multiples for PyTorch's kernels of four bits: outputs and inputs.
MULTIPLES = {"cpu": (16, 1)}
ELSEWHERE = (32, 32)


@dataclass(frozen=True, slots=True)
class KeptCodes:
    """The format of codes on a device.

    Attributes:
        device: where they are to be.
        dtype: that the model computes in.
        kernels: help on a CPU; None for none.
        most_bits: of codes that are kept.
    """

    device: torch.device
    dtype: torch.dtype
    kernels: Kernels | None = None
    most_bits: int = 8

    def takes(self, outputs: int, inputs: int, codes: CodeFormat) -> bool:
        """Return whether a kernel takes a matrix of this shape with such codes, if they are to be kept."""
        if codes.bits > self.most_bits:
            return False
        if self._kernels_for(outputs, inputs, codes) is not None:
            return True
        multiples = MULTIPLES.get(self.device.type, ELSEWHERE)
        return codes.bits == 4 and inputs % codes.group == outputs % multiples[0] == inputs % multiples[1] == 0

    def __call__(self, codes: GroupCodes, bias: Tensor | None) -> WeightMatrix:
        """Keep codes; `bias` is on the device."""
        outputs, inputs = codes.codes.shape
        kernels = self._kernels_for(outputs, inputs, codes.format)
        if kernels is not None:
            return ByteCodes(codes, bias, kernels)
        if self.device.type == "cpu":
            return CpuInt4(codes, bias, self.kernels)
        return WeightInt4(codes, bias, self.device, kernel_dtype(self.device, self.dtype))

    def in_four_bits(self, weight: Tensor, bias: Tensor | None, otherwise: MatrixFormat) -> WeightMatrix:
        """Quantise `[out, in]`, to the format `otherwise` where no kernel takes the shape."""
        outputs, inputs = weight.shape
        if not self.takes(outputs, inputs, FOUR_BITS):
            return otherwise(weight, bias)
        return self(quantize_int4(weight, kernel_dtype(self.device, self.dtype)), bias)

    def _kernels_for(self, outputs: int, inputs: int, codes: CodeFormat) -> Kernels | None:
        """Return the kernels if they do all products with such a matrix."""
        kernels = _for_bytes(self.device, self.kernels)
        return kernels if ByteCodes.takes(outputs, inputs, codes) else None


@dataclass(frozen=True, slots=True)
class KeptSixteenBits:
    """The format of plain weights of 16 bits where rows have 32.

    Attributes:
        kernels: multiply few rows.
    """

    kernels: Kernels

    def takes(self, outputs: int, inputs: int) -> bool:
        """Return whether the kernels take a matrix of this shape."""
        return SixteenBits.takes(outputs, inputs)

    def __call__(self, weight: Tensor, bias: Tensor | None) -> WeightMatrix:
        """Keep a weight as it is."""
        return SixteenBits(weight, bias, self.kernels)


_NARROW = {"BF16": torch.bfloat16, "F16": torch.float16}  # plain forms of 16 bits


class Kept(NamedTuple):
    """What stays of a matrix as its file has it: its codes, or its 16 bits, or nothing."""

    codes: CodeFormat | None = None
    narrow: torch.dtype | None = None
    is_packed: bool = False  # it has few bits in the file, and its codes do not stay


def choose_kept(
    stored: StoredTensor, formats: WeightFormats | None, outputs: int, inputs: int, *, is_embedding: bool = False
) -> Kept:
    """Choose what stays of a matrix of a file, or of an embedding, in a model of these formats; None is all in full."""
    codes, coded, narrow = stored.code_format, formats and formats.coded, formats and formats.narrow
    if codes is not None and coded:
        if Int4Embedding.takes(codes, inputs) if is_embedding else coded.takes(outputs, inputs, codes):
            return Kept(codes)
    kept = _NARROW.get(stored.form) if narrow and narrow.takes(outputs, inputs) else None
    return Kept(narrow=kept, is_packed=stored.form not in PLAIN_FORMS)


FOUR_BITS = CodeFormat(4, GROUP)  # of what full weights become


def choose_formats(
    quantization: Quantization,
    device: torch.device,
    dtype: torch.dtype,
    kernels: Kernels | None = None,
) -> WeightFormats:
    """Choose the formats of a model.

    Args:
        quantization: what was asked for.
        device: of the model.
        dtype: in which it computes.
        kernels: what helps on a CPU; None for nothing.
    """
    full = lossless_format(device, dtype)
    int8 = _int8(device, kernels)
    # A head's products are of few rows, which the kernels read faster than FBGEMM (bench/LOG.md), and do not quantise.
    head = int8 if kernels is None else WeightInt8
    codes = KeptCodes(device, dtype, kernels)
    narrow = KeptSixteenBits(kernels) if kernels is not None and dtype == torch.float32 else None
    match quantization:
        case Quantization.NONE:
            return WeightFormats(full, full, narrow=narrow)
        case Quantization.AUTO:
            return WeightFormats(full, full, packed=int8, packed_head=head, coded=codes, narrow=narrow)
        case Quantization.INT8:
            return WeightFormats(int8, head, small_embedding=True)
        case Quantization.INT4:
            codes = replace(codes, most_bits=4)
            four = partial(codes.in_four_bits, otherwise=int8)
            return WeightFormats(four, head, coded=codes, small_embedding=True)


def _int8(device: torch.device, kernels: Kernels | None) -> MatrixFormat:
    """Choose the format of eight bits: rows have as many where the processor multiplies bytes."""
    others: MatrixFormat = DynamicInt8 if has_integer_products(device) else WeightInt8
    own = _for_bytes(device, kernels)
    return others if own is None else partial(_by_bytes, kernels=own, otherwise=others)


def _for_bytes(device: torch.device, kernels: Kernels | None) -> Kernels | None:
    """Return the kernels if they multiply bytes."""
    return kernels if device.type == "cpu" and kernels is not None and kernels.multiplies_bytes else None


def _by_bytes(weight: Tensor, bias: Tensor | None, kernels: Kernels, otherwise: MatrixFormat) -> WeightMatrix:
    return ByteInt8(weight, bias, kernels) if ByteInt8.takes(*weight.shape) else otherwise(weight, bias)


def quantised_form(outputs: int, inputs: int, quantization: Quantization, device: torch.device, *, head: bool) -> str:
    """Return the form that a plain matrix is brought to; an empty string where it stays plain."""
    if quantization in (Quantization.NONE, Quantization.AUTO):
        return ""
    four = quantization is Quantization.INT4 and not head
    return str(FOUR_BITS) if four and KeptCodes(device, torch.bfloat16).takes(outputs, inputs, FOUR_BITS) else INT8
