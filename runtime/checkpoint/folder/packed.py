"""Matrices whose weights are packed codes, with a scale, and mostly a zero, for each group of inputs.

Several tensors of a file make up one matrix.  A `Layout` says which, what shapes they have and where each code lies;
there is one for each tool that writes such files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.checkpoint.stored import ALL, CODE_GROUPS, CodeFormat, GroupCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from runtime.checkpoint.stored import Rows, StoredTensor

    Parts = Mapping[str, StoredTensor]

# What numbers of a part may be, by safetensors' names.
WORDS = frozenset({"I32", "U32"})
FLOATS = frozenset({"F32", "F16", "BF16"})
SIGNED_BYTES, BYTES = frozenset({"I8"}), frozenset({"U8"})

_KEPT_GROUPS = {4: CODE_GROUPS, 6: (16,)}  # by the bits of a code


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of a matrix: a weight is `(code - point) * scale + bias`, and all but the code is its group's.

    Attributes:
        codes: `[rows, in]`: uint8, or the numbers themselves in a type of 8 bits.
        scales: float32 `[rows, groups]`.
        points: whole numbers in float32, likewise, or one for all.
        biases: float32, likewise; None for zeros.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    points: torch.Tensor | int = 0
    biases: torch.Tensor | None = None

    def expand(self) -> torch.Tensor:
        """Return the weights, float32 `[rows, in]`."""
        rows, groups = self.scales.shape
        weights = self.codes.float().view(rows, groups, -1)
        weights.sub_(self.points if isinstance(self.points, int) else self.points[..., None])
        weights.mul_(self.scales[..., None])
        if self.biases is not None:
            weights.add_(self.biases[..., None])
        return weights.view(rows, -1)

    def kept(self, form: CodeFormat) -> GroupCodes:
        """Return the same weights by groups of the format's size, of which each group here has a whole number."""
        zeros = (form.middle - self.points) * self.scales
        if self.biases is not None:
            zeros = zeros + self.biases
        times = self.codes.shape[1] // self.scales.shape[1] // form.group
        scales, zeros = (each.repeat_interleave(times, 1) for each in (self.scales, zeros))
        return GroupCodes(self.codes, scales, zeros, form.group, form.bits)


@dataclass(frozen=True, slots=True)
class Part:
    """Tensor of a layout, as that expects it."""

    shape: tuple[int, ...]
    forms: frozenset[str]


class Layout(Protocol):
    """Layout of the codes, scales and zeros of a matrix in the tensors of its module."""

    @property
    def name(self) -> str:
        """The format's name."""

    @property
    def bits(self) -> int:
        """Bits of a code, 2 to 8."""

    @property
    def kept_bits(self) -> int | None:
        """Bits of the codes that are kept of it: 4 or 6; None for none."""

    @property
    def group(self) -> int | None:
        """Neighbouring inputs that share a scale; None where an output has one for all."""

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the matrix's shape, outputs before inputs, as its parts make it; they may be of any shape."""

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return what the required parts must be for a matrix of `shape`, and those optional ones that are there."""

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read rows of the matrix."""


class WholeNumbers:
    """A layout whose codes are whole numbers.

    Attributes:
        bits: of a code.
    """

    __slots__ = ()
    bits: int

    @property
    def kept_bits(self) -> int | None:
        """Four for up to four: codes of two and three bits have the same meaning in four."""
        return 4 if self.bits <= 4 else None


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """A matrix in one of the layouts.

    Attributes:
        layout: how it is stored.
        parts: its tensors in the file, by the last part of their names.
        shape: outputs before inputs.
    """

    layout: Layout
    parts: Parts
    shape: tuple[int, ...]

    @classmethod
    def of(cls, module: str, layout: Layout, parts: Parts) -> PackedMatrix:
        """Put a module's parts together.

        Raises:
            CheckpointError: one is missing, or they do not make a matrix.
        """
        for name, stored in parts.items():
            if not stored.shape:
                raise CheckpointError(f"{stored.file}: {module}.{name} is a single number")
        try:
            shape = layout.shape(parts)
            expected = layout.expected(shape, parts)
        except KeyError as error:
            raise CheckpointError(f"{module}.{error.args[0]}: is missing beside {_names(module, parts)}") from None
        for name, part in expected.items():
            found = parts.get(name)
            if found is None:
                raise CheckpointError(f"{module}.{name}: is missing beside {_names(module, parts)}")
            if found.form not in part.forms or found.shape != part.shape or not math.prod(part.shape):
                raise CheckpointError(
                    f"{found.file}: {module}.{name} is {found.form} {list(found.shape)}; {_described(layout)} make it"
                    f" {' or '.join(sorted(part.forms))} {list(part.shape)}"
                )
        return cls(layout, parts, shape)

    @property
    def file(self) -> str:
        """The file's name."""
        return next(iter(self.parts.values())).file

    @property
    def form(self) -> str:
        """The format, the bits and the group."""
        return _described(self.layout)

    @property
    def num_bytes(self) -> int:
        """The size of all parts."""
        return sum(part.num_bytes for part in self.parts.values())

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of what is kept, by the largest group of a kernel that divides this one's; None for nothing."""
        bits, group = self.layout.kept_bits, self.layout.group or self.shape[-1]
        if bits is None:
            return None
        return next((CodeFormat(bits, size) for size in reversed(_KEPT_GROUPS[bits]) if group % size == 0), None)

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows as float32."""
        weights = self.layout.read(self.parts, rows).expand()
        return weights.view(self.shape) if rows == ALL else weights

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows in codes that are kept."""
        assert self.code_format is not None, f"{self.form} has no codes that are kept"
        return self.layout.read(self.parts, rows).kept(self.code_format)


def unpack(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Take codes out of the bits of each row, which lie one behind the other, the lowest first.

    Args:
        words: 32-bit integers `[rows, words]`; a row has whole codes.
        bits: of a code, 1 to 8.

    Returns:
        uint8 `[rows, words * 32 / bits]`.
    """
    import torch

    run = math.lcm(bits, 8)  # so many bits are whole codes and whole bytes
    data = words.contiguous().view(torch.uint8).view(words.shape[0], -1, run // 8)
    codes = data.new_empty((*data.shape[:2], run // bits))
    for index in range(run // bits):
        byte, shift = divmod(index * bits, 8)
        code = data[..., byte] >> shift
        if shift + bits > 8:
            code |= data[..., byte + 1] << (8 - shift)  # what is shifted out of the byte belongs to other codes
        codes[..., index] = code & (1 << bits) - 1
    return codes.view(words.shape[0], -1)


def words_of(codes: int, bits: int) -> int:
    """Return how many words so many codes fill; 0 where that is no whole number."""
    return codes * bits // 32 if codes * bits % 32 == 0 else 0


def _described(layout: Layout) -> str:
    return f"{layout.name} {layout.bits} bits by {layout.group or 'output'}"


def _names(module: str, parts: Parts) -> str:
    return " and ".join(f"{module}.{name}" for name in parts)
