"""Tensors as they lie in a checkpoint's files, whatever the format: plain numbers, or codes of a few bits.

What reads weights knows this and nothing of formats.  Names are those of Hugging Face's Llama (`model.layers.0.…`),
also where the file has others; shapes are PyTorch's, outputs before inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    # Which rows of a matrix are wanted, in which order.
    Rows = slice | Sequence[int]

ALL = slice(None)

CODE_GROUPS = (32, 64, 128, 256)  # that kernels for codes of four bits take

# What plain numbers are called, in safetensors and in GGUF; all other forms are of few bits.
PLAIN_FORMS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class CodeFormat:
    """Format of a matrix's codes.

    Attributes:
        bits: of a code: 4 or 6.
        group: neighbouring inputs that share a scale and a zero; of four bits one of `CODE_GROUPS`, of six 16.
    """

    bits: int
    group: int

    def __str__(self) -> str:
        """Return its name: `int4 by 32`."""
        return f"int{self.bits} by {self.group}"

    @property
    def middle(self) -> int:
        """The code that stands for the zero; of four bits it is 8, which PyTorch's kernels take for granted."""
        return 1 << (self.bits - 1)


@dataclass(frozen=True, slots=True)
class GroupCodes:
    """A matrix in few bits: a weight is `(code - middle) * scale + zero` of its group.

    Attributes:
        codes: uint8 `[out, in]`, none of more bits than `bits`.
        scales: float32 `[out, in / group]`.
        zeros: likewise.
        group: neighbouring inputs that share a scale and a zero.
        bits: of a code.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    group: int
    bits: int = 4

    @property
    def format(self) -> CodeFormat:
        """Bits and group."""
        return CodeFormat(self.bits, self.group)

    @classmethod
    def joined(cls, parts: Iterable[GroupCodes], outputs: int) -> GroupCodes:
        """Join parts of one format, of `outputs` in all.

        Each is copied to its place as it comes: a list of all would be a second copy of the whole.
        """
        whole: GroupCodes | None = None
        done = 0
        for part in parts:
            if whole is None:
                given = part.codes, part.scales, part.zeros
                codes, scales, zeros = (own.new_empty(outputs, own.shape[1]) for own in given)
                whole = cls(codes, scales, zeros, part.group, part.bits)
            place = whole.some(slice(done, done + part.codes.shape[0]))
            place.codes[:], place.scales[:], place.zeros[:] = part.codes, part.scales, part.zeros
            done += part.codes.shape[0]
        assert whole is not None, "a matrix has a part"
        return whole

    def some(self, outputs: slice) -> GroupCodes:
        """Return those of some outputs, in the same memory."""
        return GroupCodes(self.codes[outputs], self.scales[outputs], self.zeros[outputs], self.group, self.bits)

    def expand(self) -> torch.Tensor:
        """Return the weights that the codes stand for, float32 `[out, in]`."""
        groups = self.codes.float().view(*self.scales.shape, self.group).sub_(self.format.middle)
        return groups.mul_(self.scales[..., None]).add_(self.zeros[..., None]).view(self.codes.shape)


class StoredTensor(Protocol):
    """One tensor of a file.  Nothing is read before it is asked for, and nothing is kept of it after.

    A tensor of three dimensions, such as a stack of experts, is read as the matrix of all its rows.
    """

    @property
    def file(self) -> str:
        """The file's name, for messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """PyTorch's order: outputs before inputs."""

    @property
    def form(self) -> str:
        """Format of its numbers, in its own word: `BF16`, `Q4_K`, `affine 4 bits by 64`."""

    @property
    def num_bytes(self) -> int:
        """Size in the file."""

    @property
    def code_format(self) -> CodeFormat | None:
        """The format of `codes`; None where the form has none."""

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows as plain numbers, in host memory.

        Returns:
            `[rows, …]`: float32, or the file's own float16 or bfloat16 where it is plain.  No rounding is added.

        Raises:
            CheckpointError: the file is unreadable.
        """

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows in their own codes; only where `code_format` is not None.  Raises as `expand` does."""


class WithoutCodes:
    """A stored tensor without codes, or with groups that lie across, or would be torn."""

    __slots__ = ()

    @property
    def code_format(self) -> CodeFormat | None:
        """None."""
        return None

    def codes(self, rows: Rows = ALL) -> NoReturn:
        """Raise TypeError."""
        raise TypeError(f"{self} has no codes")


class OfAnother:
    """A stored tensor that is made of one other, whose file and form it has.

    Attributes:
        whole: the tensor in the file.
    """

    __slots__ = ()
    whole: StoredTensor

    @property
    def file(self) -> str:
        """The file's name."""
        return self.whole.file

    @property
    def form(self) -> str:
        """Format of the whole."""
        return self.whole.form

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole."""
        return self.whole.num_bytes


@dataclass(frozen=True, slots=True)
class SelectedRows(OfAnother):
    """Some rows of another tensor, as a tensor of its own: a part of a fused matrix, one expert, rows in another order.

    Attributes:
        whole: the tensor in the file.
        rows: which of its rows, counted over all dimensions but the last; a slice has a start and an end.
        shape: of the selection.
    """

    whole: StoredTensor
    rows: Rows
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Share of the whole's bytes."""
        return self.whole.num_bytes * _count(self.rows) // _rows_of(self.whole.shape)

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the whole."""
        return self.whole.code_format

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows of the selection."""
        read = self.whole.expand(_within(self.rows, rows))
        return read.reshape(self.shape) if rows == ALL else read

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows of the selection in their own codes."""
        return self.whole.codes(_within(self.rows, rows))


@dataclass(frozen=True, slots=True)
class SelectedColumns(OfAnother):
    """Columns of a matrix in another order, as a tensor of its own: norms of heads, halves or heads that are swapped.

    Attributes:
        whole: the tensor in the file.
        columns: which of its columns.
    """

    whole: StoredTensor
    columns: Sequence[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection."""
        return (*self.whole.shape[:-1], len(self.columns))

    @property
    def num_bytes(self) -> int:
        """Share of the whole's bytes."""
        return self.whole.num_bytes * len(self.columns) // self.whole.shape[-1]

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the whole; None where its groups would be torn."""
        form = self.whole.code_format
        if form is None:
            return None
        firsts = self.columns[:: form.group]
        together = [column for first in firsts for column in range(first, first + form.group)]
        whole_groups = not any(first % form.group for first in firsts) and list(self.columns) == together
        return form if whole_groups else None

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows of the selection."""
        return self.whole.expand(rows)[..., self.columns]

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read rows of the selection in their own codes."""
        read = self.whole.codes(rows)
        groups = [column // read.group for column in self.columns[:: read.group]]
        return GroupCodes(
            read.codes[:, self.columns], read.scales[:, groups], read.zeros[:, groups], read.group, read.bits
        )


@dataclass(frozen=True, slots=True)
class JoinedRows(WithoutCodes):
    """Small plain tensors one behind the other, as one tensor: the convolutions of queries, keys and values.

    Attributes:
        parts: alike but for the number of their rows.
    """

    parts: tuple[StoredTensor, ...]

    @property
    def file(self) -> str:
        """The first part's file."""
        return self.parts[0].file

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of all parts, and the shape of each."""
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    @property
    def form(self) -> str:
        """Format of the first part."""
        return self.parts[0].form

    @property
    def num_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.num_bytes for part in self.parts)

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read rows of the whole."""
        read = [part.expand() for part in self.parts]
        whole = read[0].new_empty(self.shape)
        for own, place in zip(read, whole.split_with_sizes([len(own) for own in read]), strict=True):
            place.copy_(own)
        return whole[rows]


def _count(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _rows_of(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape[:-1]:
        count *= size
    return count if len(shape) > 1 else shape[0]


def _within(outer: Rows, inner: Rows) -> Rows:
    """Return the rows of the whole that are the rows `inner` of the selection `outer`."""
    if isinstance(outer, slice):
        first = outer.start
        if isinstance(inner, slice):
            start, stop, _ = inner.indices(outer.stop - outer.start)
            return slice(first + start, first + stop)
        return [first + row for row in inner]
    return outer[inner] if isinstance(inner, slice) else [outer[row] for row in inner]
