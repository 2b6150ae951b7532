"""Numbers of few bits, of which a block shares a scale in a byte: MXFP4, MXFP8 and NVFP4.

A number of 4 bits (E2M1) is the half of a whole number from -12 to 12, so codes of six bits keep it as it is; one of 8
bits is E4M3.  The scale of a block of 32 is an exponent of 2 (E8M0), that of a block of 16 is E4M3.

Sources: the Open Compute Project's "Microscaling Formats (MX) Specification", version 1.0, sections 5.3 and 5.4; for
NVFP4, and how numbers lie in words, `fp_dequantize` of https://github.com/ml-explore/mlx (mlx/ops.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.packed import BYTES, WORDS, Groups, Part, unpack, words_of
from runtime.checkpoint.stored import CodeFormat

if TYPE_CHECKING:
    import torch

    from runtime.checkpoint.folder.packed import Parts
    from runtime.checkpoint.stored import Rows

_HALVES = (0, 1, 2, 3, 4, 6, 8, 12)  # of the lower three bits; the fourth is the sign
_MIDDLE = CodeFormat(6, 16).middle
_EXPONENT_BIAS = 127


@dataclass(frozen=True, slots=True)
class FloatLayout:
    """`weight` has the numbers of a row one behind the other, the lowest bits first; `scales` a byte for each block.

    Attributes:
        name: of the format.
        bits: of a number, 4 or 8.
        group: of a block, 16 or 32.
    """

    name: str
    bits: int
    group: int

    @property
    def kept_bits(self) -> int | None:
        """Six for four."""
        return 6 if self.bits == 4 else None

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the shape that the blocks make."""
        *outputs, groups = parts["scales"].shape
        return (*outputs, groups * self.group)

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return the two parts."""
        *outputs, inputs = shape
        return {
            "weight": Part((*outputs, words_of(inputs, self.bits)), WORDS),
            "scales": Part((*outputs, inputs // self.group), BYTES),
        }

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read rows."""
        import torch

        words, data = (parts[name].expand(rows) for name in ("weight", "scales"))
        data = data.view(-1, parts["scales"].shape[-1])
        numbers = unpack(words.view(-1, words.shape[-1]), self.bits)
        if self.bits == 8:
            return Groups(numbers.view(torch.float8_e4m3fn), powers(data))
        halves = half_powers(data) if self.group == MXFP4.group else data.view(torch.float8_e4m3fn).float() / 2
        return Groups(six_bits(numbers), halves, _MIDDLE)


def powers(exponents: torch.Tensor, bias: int = _EXPONENT_BIAS) -> torch.Tensor:
    """Return the powers of two that bytes stand for (E8M0), float32."""
    import torch

    return torch.ldexp(torch.ones_like(exponents, dtype=torch.float32), exponents.int() - bias)


def half_powers(exponents: torch.Tensor) -> torch.Tensor:
    """Return the halves of these, of which none is too large."""
    return powers(exponents, _EXPONENT_BIAS + 1)


def six_bits(numbers: torch.Tensor) -> torch.Tensor:
    """Return codes of six bits, whose middle is 0, for twice the numbers that four bits stand for (E2M1)."""
    import torch

    codes = [_MIDDLE + sign * half for sign in (1, -1) for half in _HALVES]
    return torch.tensor(codes, dtype=torch.uint8)[numbers.int()]


MXFP4, MXFP8, NVFP4 = FloatLayout("mxfp4", 4, 32), FloatLayout("mxfp8", 8, 32), FloatLayout("nvfp4", 4, 16)
