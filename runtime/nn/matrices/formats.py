"""The formats of a model's matrices, by what was asked for, the device, and what the files have.

Plain weights are kept in full unless less is asked for.  Quantised ones keep their codes where a kernel takes them;
others become int8.  The head, to which the result is most sensitive, is never made four bits that it was not in the
file: it stays in int8, as in the formats of llama.cpp.

Weights are quantised when they are loaded.  That adds a quarter to the time that full ones take to be packed, and less
than reading adds where the file is not in memory (bench/LOG.md), so no copy is kept on disk.  A row of activations is
never quantised together with another: no request changes a neighbour's result.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from runtime.nn.matrices.arithmetic import GROUP
from runtime.nn.matrices.int4 import Int4Format, int4_form
from runtime.nn.matrices.int8 import INT8, ByteInt8, DynamicInt8, WeightInt8, has_integer_products
from runtime.nn.matrices.linear import WeightFormats, lossless_format
from runtime.nn.matrices.quantization import Quantization

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.native.kernels import Kernels
    from runtime.nn.matrices.linear import MatrixFormat, WeightMatrix


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
    int4 = Int4Format(device, dtype, kernels)
    match quantization:
        case Quantization.NONE:
            return WeightFormats(full, full)
        case Quantization.AUTO:
            return WeightFormats(full, full, packed=int8, packed_head=head, coded=int4)
        case Quantization.INT8:
            return WeightFormats(int8, head, small_embedding=True)
        case Quantization.INT4:
            four = partial(int4.quantised, otherwise=int8)
            return WeightFormats(four, head, coded=int4, small_embedding=True)


def _int8(device: torch.device, kernels: Kernels | None) -> MatrixFormat:
    """Choose the format of eight bits: rows have as many where the processor multiplies bytes."""
    if not has_integer_products(device):
        return WeightInt8
    return DynamicInt8 if kernels is None else partial(_by_bytes, kernels=kernels)


def _by_bytes(weight: Tensor, bias: Tensor | None, kernels: Kernels) -> WeightMatrix:
    return ByteInt8(weight, bias, kernels) if ByteInt8.takes(*weight.shape) else DynamicInt8(weight, bias)


def quantised_form(outputs: int, inputs: int, quantization: Quantization, device: torch.device, *, head: bool) -> str:
    """Return the form that a plain matrix is brought to; an empty string where it stays plain."""
    if quantization in (Quantization.NONE, Quantization.AUTO):
        return ""
    four = quantization is Quantization.INT4 and not head
    return int4_form(GROUP) if four and Int4Format(device, torch.bfloat16).takes(outputs, inputs, GROUP) else INT8
