"""Tensors of GGUF files: rows are read from the mapped file and expanded as the `gguf` library does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from runtime.checkpoint.stored import ALL, CodeFormat, OfAnother, WithoutCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from numpy.typing import NDArray

    from runtime.checkpoint.gguf.header import TensorEntry
    from runtime.checkpoint.stored import GroupCodes, Rows, StoredTensor

# What is not quantised stays in the file's own type: torch's names.
PLAIN_TYPES = {
    GGMLQuantizationType.F32: "float32",
    GGMLQuantizationType.F16: "float16",
    GGMLQuantizationType.BF16: "bfloat16",
}

# The types that are read in their own codes.  `codes.py` takes them apart; it imports torch, which takes seconds, and a
# file is opened before that.
CODE_FORMATS = {
    GGMLQuantizationType.Q4_0: CodeFormat(4, 32),
    GGMLQuantizationType.Q4_1: CodeFormat(4, 32),
    GGMLQuantizationType.Q4_K: CodeFormat(4, 32),
    GGMLQuantizationType.Q6_K: CodeFormat(6, 16),
    GGMLQuantizationType.MXFP4: CodeFormat(6, 16),
}

# The quantised types that are read.  NVFP4 is none of them: a second tensor has its scale.
PACKED_TYPES = frozenset(
    GGMLQuantizationType[name]
    for name in (
        *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4"),
        *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0"),
    )
)

_AT_ONCE = 1 << 18  # numbers: the library makes several arrays of them, which are to stay in the processor's caches


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A `StoredTensor` of a GGUF file.

    Attributes:
        entry: where it is.

    Raises:
        CheckpointError: its numbers are of a type that is not read.
    """

    entry: TensorEntry

    def __post_init__(self) -> None:
        """Check the type."""
        kind = self.entry.kind
        if kind not in PLAIN_TYPES and kind not in PACKED_TYPES:
            raise CheckpointError(f"{self.entry.path}: {self.entry.name} is {kind.name}, a type that is not supported")

    @property
    def file(self) -> str:
        """The file's name."""
        return self.entry.path.name

    @property
    def shape(self) -> tuple[int, ...]:
        """PyTorch's order."""
        return self.entry.shape

    @property
    def form(self) -> str:
        """The type's name in ggml: `BF16`, `Q4_K`."""
        return str(self.entry.kind.name)

    @property
    def num_bytes(self) -> int:
        """Size in the file."""
        return self.entry.num_bytes

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of a matrix of a type with codes."""
        return CODE_FORMATS.get(self.entry.kind) if len(self.shape) > 1 else None

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows as plain numbers; of a vector, entries.  Quantised ones become what `gguf.quants` makes of them.

        Beside the result there are never more than some megabytes.

        Returns:
            `[rows, columns]`, or the tensor's own shape for all rows.

        Raises:
            CheckpointError: the file is unreadable.
        """
        if len(self.shape) == 1:
            return self._expanded(_mapped(self.entry).reshape(1, -1), ALL)[0][rows]
        expanded = self._expanded(_mapped(self.entry), rows)
        return expanded.view(self.shape) if rows == ALL else expanded

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows in their own codes.

        Raises:
            CheckpointError: the file is unreadable.
        """
        from runtime.checkpoint.gguf.codes import group_codes

        return group_codes(self.entry.kind, CODE_FORMATS[self.entry.kind], _mapped(self.entry)[rows])

    def _expanded(self, data: NDArray[np.uint8], rows: Rows) -> torch.Tensor:
        """Expand rows of `data`, some at a time."""
        import torch

        kind = self.entry.kind
        block, block_bytes = GGML_QUANT_SIZES[kind]
        width = data.shape[1] // block_bytes * block
        count = len(range(data.shape[0])[rows]) if isinstance(rows, slice) else len(rows)
        plain = getattr(torch, PLAIN_TYPES[kind]) if kind in PLAIN_TYPES else None
        expanded = torch.empty((count, width), dtype=plain or torch.float32)
        for place, some in _pieces(rows, count, data.shape[0], max(1, _AT_ONCE // width)):
            # One long row: the library takes rows sixteen by sixteen, and blocks do not depend on each other.
            raw = np.array(data[some]).reshape(1, -1)
            if plain is None:
                with np.errstate(all="ignore"):  # a scale may be infinite
                    numbers = torch.from_numpy(dequantize(raw, kind))
            else:
                numbers = torch.from_numpy(raw).view(plain)
            expanded[place] = numbers.reshape(-1, width)
        return expanded


@dataclass(frozen=True, slots=True)
class ChangedTensor(OfAnother, WithoutCodes):
    """A small tensor to which the conversion did something, undone: it is read whole, in float32.

    Attributes:
        whole: the tensor in the file.
        shape: what it should have.
        change: is made to its numbers.
    """

    whole: StoredTensor
    shape: tuple[int, ...]
    change: Callable[[torch.Tensor], torch.Tensor]

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read all, change it, and take rows."""
        return self.change(self.whole.expand().float()).reshape(self.shape)[rows]


def read_vector(entry: TensorEntry, size: int) -> NDArray[np.float32]:
    """Read a vector of `size` float32 numbers, as those that are part of the settings are.

    Raises:
        CheckpointError: it is of another type or shape, or the file is unreadable.
    """
    if entry.kind is not GGMLQuantizationType.F32 or entry.shape != (size,):
        raise CheckpointError(
            f"{entry.path}: {entry.name} is {entry.kind.name} {list(entry.shape)}, and should be F32 [{size}]"
        )
    return np.array(_mapped(entry)).reshape(-1).view(np.float32)


def _mapped(entry: TensorEntry) -> NDArray[np.uint8]:
    """Map a tensor's rows, `[rows, bytes]`, for as long as the array is there."""
    try:
        data = np.memmap(entry.path, np.uint8, "r", entry.offset, (entry.num_bytes,))
    except (OSError, ValueError) as error:  # the latter where the file is shorter than it was
        raise CheckpointError(f"{entry.path}: {entry.name} cannot be read: {error}") from error
    return data.reshape(math.prod(entry.shape[:-1]), -1)


def _pieces(rows: Rows, count: int, of: int, at_once: int) -> Iterator[tuple[slice, Rows]]:
    """Yield where some of the `count` selected rows belong in the result, with which rows they are, out of `of`."""
    start, _, _ = rows.indices(of) if isinstance(rows, slice) else (0, 0, 0)
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        some = slice(start + first, start + last) if isinstance(rows, slice) else rows[first:last]
        yield slice(first, last), some
