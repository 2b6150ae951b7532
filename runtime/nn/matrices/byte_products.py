"""Weight matrices for CPUs that multiply bytes: the kernels do their products, of any number of rows.

Rows are rounded to bytes as they come.  What the kernels make of a row is the same to the bit, whatever is beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch

from runtime.devices.native.structures import LANES, Kind, Matrix
from runtime.nn.matrices.arithmetic import hadamard_matrix, quantize_int8
from runtime.nn.matrices.int8 import INT8
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.matrices.native_product import DTYPES, native_product
from runtime.nn.matrices.quantization import HADAMARD_BLOCK

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.stored import CodeFormat, GroupCodes
    from runtime.devices.native.kernels import Kernels

OFFSET = 128  # of the bytes that stand for weights of 8 bits
FOUR = 4  # inputs that are multiplied at a time
SLAB = 2**22  # codes that are packed at a time


class ByteMatrix(ABC):
    """A matrix of one of these kinds.

    Attributes:
        form: what its weights are.
        nbytes: of memory, the bias included.

    Args:
        shape: `[out, in]`.
        bias: `[out]`.
        kernels: for processors that multiply bytes.
    """

    OUTPUTS = LANES  # of which the kernels take multiples

    form: str
    nbytes: int

    def __init__(self, shape: tuple[int, int], bias: Tensor | None, kernels: Kernels) -> None:
        self._shape = shape
        self._bias = bias
        self._kernels = kernels

    @property
    @abstractmethod
    def described(self) -> Matrix:
        """The same for kernels, without the bias; refers to this memory."""

    @property
    def bias(self) -> Tensor | None:
        """The bias, `[out]`."""
        return self._bias

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        rows = x if x.dtype in DTYPES else x.float()
        y = native_product(self._kernels, rows, self.described, None).to(x.dtype)
        return y if self._bias is None else y.add_(self._bias)


class ByteInt8(ByteMatrix):
    """8 bits, with a scale for each output: what `DynamicInt8` computes.

    The weights of few rows are read as fast as memory gives them, and nothing is kept twice for many (bench/LOG.md).

    Args:
        weight: `[out, in]`, of a shape that `takes`.
        bias: `[out]`.
        kernels: for processors that multiply bytes.
    """

    INPUTS = HADAMARD_BLOCK  # of which the kernels take multiples
    MOST_INPUTS = 2**16  # whose products, of bytes without a sign and with one, are a sum of 32 bits
    form = INT8

    def __init__(self, weight: Tensor, bias: Tensor | None, kernels: Kernels) -> None:
        outputs, inputs = weight.shape
        super().__init__((outputs, inputs), bias, kernels)
        quantised, self._scales = quantize_int8(weight, hadamard_matrix(inputs))
        pieces = quantised.view(outputs // self.OUTPUTS, self.OUTPUTS, inputs // FOUR, FOUR).transpose(1, 2)
        self._weight = pieces.contiguous().view(torch.uint8).bitwise_xor_(OFFSET)  # which adds it to an int8
        self.nbytes = total_bytes(self._weight, self._scales, bias)

    @classmethod
    def takes(cls, outputs: int, inputs: int) -> bool:
        """Return whether the kernels take a matrix of this shape."""
        return outputs % cls.OUTPUTS == 0 and inputs % cls.INPUTS == 0 and inputs <= cls.MOST_INPUTS

    @property
    def described(self) -> Matrix:
        """The same for kernels."""
        outputs, inputs = self._shape
        return Matrix(
            kind=Kind.SPREAD_BYTES,
            weight=self._weight.data_ptr(),
            scales=self._scales.data_ptr(),
            out=outputs,
            in_=inputs,
        )


class ByteCodes(ByteMatrix):
    """Codes of 4 or 6 bits, a file's own or made of full weights.

    Rows are rounded to 8 bits by blocks of 32 inputs, as llama.cpp's are.  Scales and zeros are rounded to bfloat16;
    zeros that are all 0, as those of Q4_0 and Q6_K, are left out.

    Args:
        codes: of a shape and a format that `takes`.
        bias: `[out]`.
        kernels: for processors that multiply bytes.
    """

    INPUTS = 32  # of which the kernels take multiples
    GROUPS: ClassVar = {4: 32, 6: 16}  # of what their groups are multiples, by the bits of a code

    def __init__(self, codes: GroupCodes, bias: Tensor | None, kernels: Kernels) -> None:
        outputs, inputs = codes.codes.shape
        super().__init__((outputs, inputs), bias, kernels)
        self._format = codes.format
        self._has_zeros = bool(codes.zeros.any())
        numbers = 2 if self._has_zeros else 1
        line = self.OUTPUTS * (codes.group * codes.bits // 8 + numbers * torch.bfloat16.itemsize)
        self._weight = torch.empty(outputs // self.OUTPUTS, inputs // codes.group, line, dtype=torch.uint8)
        step = max(1, SLAB // (self.OUTPUTS * inputs))  # pieces
        for first in range(0, outputs // self.OUTPUTS, step):
            slab = codes.some(slice(first * self.OUTPUTS, (first + step) * self.OUTPUTS))
            self._weight[first : first + step] = self._packed(slab)
        self.form = str(codes.format)
        self.nbytes = total_bytes(self._weight, bias)

    @classmethod
    def takes(cls, outputs: int, inputs: int, codes: CodeFormat) -> bool:
        """Return whether the kernels take a matrix of this shape with such codes."""
        multiple = cls.GROUPS.get(codes.bits)
        whole = outputs % cls.OUTPUTS == 0 and inputs % cls.INPUTS == 0 and inputs % codes.group == 0
        return whole and multiple is not None and codes.group % multiple == 0

    @property
    def described(self) -> Matrix:
        """The same for kernels."""
        outputs, inputs = self._shape
        four = Kind.NIBBLES if self._has_zeros else Kind.NIBBLES_WITHOUT_ZEROS
        return Matrix(
            kind=four if self._format.bits == 4 else Kind.SIX_BITS,
            weight=self._weight.data_ptr(),
            out=outputs,
            in_=inputs,
            group=self._format.group,
        )

    def _packed(self, some: GroupCodes) -> Tensor:
        """Pack whole pieces: of each group scales, zeros if there are any, and codes; `[pieces, groups, bytes]`."""
        groups, inputs = some.scales.shape[1], some.codes.shape[1]
        codes = (_nibbles if some.bits == 4 else _six_bits)(some.codes.view(-1, self.OUTPUTS, inputs))
        numbers = torch.stack((some.scales, some.zeros) if self._has_zeros else (some.scales,), dim=-1).bfloat16()
        numbers = numbers.view(-1, self.OUTPUTS, groups, numbers.shape[-1]).transpose(1, 2).contiguous()
        return torch.cat([part.view(torch.uint8).view(len(codes), groups, -1) for part in (numbers, codes)], dim=-1)


def _nibbles(codes: Tensor) -> Tensor:
    """Pack four inputs and the next four in one byte each: `[pieces, 16, in]` to `[pieces, in / 8, 16, 4]`."""
    four = codes.view(*codes.shape[:2], -1, 2, FOUR)
    return (four[:, :, :, 0] | four[:, :, :, 1] << 4).transpose(1, 2).contiguous()


def _six_bits(codes: Tensor) -> Tensor:
    """Pack sixteen inputs in three lines, the last with the high two bits: to `[pieces, in / 16, 3, 16, 4]`."""
    four = codes.view(*codes.shape[:2], -1, 4, FOUR)
    low, high = four & 15, four >> 4
    lines = [
        low[:, :, :, 0] | low[:, :, :, 1] << 4,
        low[:, :, :, 2] | low[:, :, :, 3] << 4,
        high[:, :, :, 0] | high[:, :, :, 1] << 2 | high[:, :, :, 2] << 4 | high[:, :, :, 3] << 6,
    ]
    return torch.stack(lines, dim=2).permute(0, 3, 2, 1, 4).contiguous()
