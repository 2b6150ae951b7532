"""Weight matrices in 4 bits: codes, with a scale and a zero for each group of an output's inputs.

The codes are the file's own (`GroupCodes`), or made of full weights.  PyTorch's kernels dequantise them as they read
them, row by row of the activations; for many rows the weights are expanded once, and multiplied as full ones.  On a
CPU that multiplies bytes `runtime.devices.native` does all of it (`ByteCodes`).  On others it multiplies rows of any
number, each to the bits that it has alone, where it has AVX2 and no more; with AVX-512 it expands the weights, for
which PyTorch needs several operations, each through memory.  On Arm PyTorch packs them in no blocks.

PyTorch has no public name for these kernels; its version is pinned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.devices.native.structures import Kind, Matrix
from runtime.nn.matrices.arithmetic import quantize_int4
from runtime.nn.matrices.int8 import INT8
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.matrices.native_product import DTYPES, native_product

if TYPE_CHECKING:
    from runtime.checkpoint.stored import GroupCodes
    from runtime.devices.native.kernels import Kernels

# From so many rows on, weights are expanded for the product.  On the CPU 512 rows take half the time (bench/LOG.md); on
# MPS, whose kernel reads the weights again for each row, the number is to be measured on a Mac.
EXPAND_ROWS = 64
MPS_EXPAND_ROWS = 16

SLAB = 64 * 64  # outputs that are packed at a time: whole blocks of the kernels' layouts
_CODES = re.compile(r"int(\d) by (\d+)")
_TILE = 16  # inputs of a tile of CUDA's layout


@dataclass(frozen=True, slots=True)
class Packed:
    """Four bits as the CPU's kernel has them in memory.

    Attributes:
        weight: `[out, in / 2]`, in blocks of outputs; see `CpuInt4`.
        scales_zeros: `[in / group, out, 2]`, bfloat16.
        bias: `[out]`; None for none.
        group: inputs that share a scale.
        block: outputs of a block; None where they are not in whole blocks, or lie otherwise.
    """

    weight: Tensor
    scales_zeros: Tensor
    bias: Tensor | None
    group: int
    block: int | None

    @property
    def described(self) -> Matrix:
        """The same for kernels, without the bias; refers to this memory."""
        groups, outputs, _ = self.scales_zeros.shape
        return Matrix(
            kind=Kind.FOUR_BITS,
            weight=self.weight.data_ptr(),
            scales=self.scales_zeros.data_ptr(),
            out=outputs,
            in_=groups * self.group,
            group=self.group,
        )


class CpuInt4:
    """The CPU's 4 bits.  Rows and results are bfloat16 in the kernel, whatever the model computes in.

    Args:
        codes: of a shape that the kernel takes.
        bias: `[out]`.
        kernels: multiply where they are the fastest, or expand the weights for many rows; None to leave all to PyTorch.
    """

    def __init__(self, codes: GroupCodes, bias: Tensor | None, kernels: Kernels | None = None) -> None:
        outputs, inputs = codes.codes.shape
        self._weight = torch.empty(outputs, inputs // 2, dtype=torch.uint8)
        for first in range(0, outputs, SLAB):  # the operation wants four bytes a code
            slab = codes.codes[first : first + SLAB].int()
            self._weight[first : first + SLAB] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(slab, 1)
        self._scales_zeros = _scales_and_zeros(codes, torch.bfloat16)
        self._group = codes.group
        self._bias = bias
        self._block = _block_outputs(outputs)
        self._kernels = kernels if kernels is not None and self._block in kernels.targets else None
        self.form = str(codes.format)
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    @property
    def packed(self) -> Packed:
        """Weights as the kernel reads them."""
        return Packed(self._weight, self._scales_zeros, self._bias, self._group, self._block)

    @classmethod
    def quantised(cls, weight: Tensor, bias: Tensor | None) -> CpuInt4:
        """Quantise `weight`, `[out, in]`, in groups of `GROUP`."""
        return cls(quantize_int4(weight, torch.bfloat16), bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x.bfloat16()
        if self._kernels is not None and self._block in self._kernels.for_many_rows and x.dtype in DTYPES:
            y = native_product(self._kernels, x, self.packed.described, self._block)
        elif self._block is not None and x.shape[0] >= EXPAND_ROWS:
            # What is not computed in bfloat16 is rounded to it all the same, so that few rows and many give the same.
            y = (rows.to(x.dtype) @ self._full(self._block, x.dtype)).bfloat16()
        else:
            y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self._weight, self._group, self._scales_zeros)
        y = y.to(x.dtype)
        return y if self._bias is None else y.add_(self._bias)

    def _full(self, block: int, dtype: torch.dtype) -> Tensor:
        """Expand the weights to `[in, out]`, each rounded once."""
        if self._kernels is None or dtype not in DTYPES:
            return self._expanded(block, dtype)
        matrix = self.packed.described
        full = torch.empty(matrix.in_, matrix.out, dtype=dtype)
        threads, is_bfloat16 = torch.get_num_threads(), dtype == torch.bfloat16
        self._kernels.expand(matrix, full.data_ptr(), is_bfloat16=is_bfloat16, block=block, threads=threads)
        return full

    def _expanded(self, block: int, dtype: torch.dtype) -> Tensor:
        """Do so by PyTorch.

        The kernel's layout has the outputs in blocks of `block`.  A byte has two outputs for one input: in its low half
        one of the block's first half, in its high half the one as far into the block's second half.
        """
        outputs = self._weight.shape[0]
        packed = self._weight.view(outputs // block, -1, block // 2)  # [blocks, in, block / 2]
        codes = torch.cat((packed & 15, packed >> 4), dim=-1).transpose(0, 1).reshape(-1, outputs)  # [in, out]
        scales, zeros = self._scales_zeros.to(dtype).permute(2, 0, 1).contiguous()[:, :, None]  # [groups, 1, out] each
        # int8, which is as good below 16, is converted three times as fast.
        groups = codes.view(torch.int8).sub_(8).to(dtype).view(-1, self._group, outputs)
        return torch.addcmul(zeros, groups, scales).view(-1, outputs)  # rounded once


class WeightInt4:
    """4 bits on MPS and CUDA.

    Attributes:
        EXPANDS: types of devices whose kernel reads the weights again for each row, so that many rows do without it.

    Args:
        codes: of a shape that the kernel takes.
        bias: `[out]`.
        device: where the kernel is.
        dtype: what it computes in.
    """

    EXPANDS = ("mps",)

    def __init__(self, codes: GroupCodes, bias: Tensor | None, device: torch.device, dtype: torch.dtype) -> None:
        whole = codes.codes
        pairs = (whole[:, ::2] << 4 | whole[:, 1::2]).to(device)
        self._weight = torch.ops.aten._convert_weight_to_int4pack(pairs, _tiles(whole.shape[1]))
        self._scales_zeros = _scales_and_zeros(codes, dtype).to(device)
        self._group = codes.group
        self._bias = bias
        self._shape = whole.shape
        self._expand_rows = MPS_EXPAND_ROWS if device.type in self.EXPANDS else None
        self.form = str(codes.format)
        self.nbytes = total_bytes(self._weight, self._scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x.to(self._scales_zeros.dtype)
        if self._expand_rows is not None and x.shape[0] >= self._expand_rows:
            y = rows @ self._expanded().T
        else:
            y = torch.ops.aten._weight_int4pack_mm(rows, self._weight, self._group, self._scales_zeros)
        y = y.to(x.dtype)
        return y if self._bias is None else y + self._bias

    def _expanded(self) -> Tensor:
        """Unpack the weights to `[out, in]`: on MPS a byte has two neighbouring inputs, the first in its low half."""
        outputs, inputs = self._shape
        packed = self._weight.view(torch.uint8).view(outputs, inputs // 2)
        codes = torch.stack((packed & 15, packed >> 4), dim=-1).view(outputs, -1, self._group)
        scales, zeros = self._scales_zeros.permute(2, 1, 0).contiguous()[..., None].unbind()  # [out, groups, 1] each
        return torch.addcmul(zeros, codes.to(scales.dtype).sub_(8), scales).view(outputs, inputs)


def packed_bytes(outputs: int, inputs: int, form: str, scale_bytes: int = 2) -> int:
    """Estimate the bytes of a matrix, without its bias and what a format of the CPU pads.

    Args:
        outputs: rows of the matrix.
        inputs: columns.
        form: as `Linear.nbytes_by_form` names it: `int8`, `int4 by 32`, `int6 by 16`, or a dtype's name.
        scale_bytes: of a scale or a zero of codes.
    """
    if form == INT8:
        return outputs * (inputs + torch.float32.itemsize)
    if codes := _CODES.fullmatch(form):
        bits, group = map(int, codes.groups())
        numbers = 2 if bits == 4 else 1  # what has 6 bits in a file has no zeros
        return outputs * (inputs * bits // 8 + numbers * scale_bytes * inputs // group)
    dtype: torch.dtype = getattr(torch, form)
    return outputs * inputs * dtype.itemsize


def _scales_and_zeros(codes: GroupCodes, dtype: torch.dtype) -> Tensor:
    """Interleave them as PyTorch's kernels take them, `[in / group, out, 2]`."""
    return torch.stack((codes.scales, codes.zeros), dim=-1).to(dtype).transpose(0, 1).contiguous()


def _tiles(inputs: int) -> int:
    """Return how many tiles of inputs lie side by side in CUDA's layout: 8, 4 or 2; MPS' does not depend on it."""
    return next(tiles for tiles in (8, 4, 2) if inputs % (_TILE * tiles) == 0)


def _block_outputs(outputs: int) -> int | None:
    """Return how many outputs a block of the CPU's layout has; None for another layout, or if they do not fit."""
    block = {"AVX512": 64, "AVX2": 32}.get(torch.backends.cpu.get_cpu_capability())
    return block if block is not None and outputs % block == 0 else None
