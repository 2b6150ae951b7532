"""Weights read from a checkpoint's files: each matrix is packed before the next one is read."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.stored import ALL, PLAIN_FORMS, GroupCodes
from runtime.errors import CheckpointError
from runtime.nn.matrices.embedding import Int4Embedding, Int8Embedding, PlainEmbedding
from runtime.nn.matrices.formats import Kept, choose_kept
from runtime.nn.source import WeightSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from runtime.checkpoint.stored import StoredTensor
    from runtime.nn.matrices.embedding import Embedding
    from runtime.nn.matrices.linear import Linear, WeightFormats

SLAB = 2**24  # numbers of a matrix of few bits that are in full, or taken apart, at a time


class StoredSource(WeightSource):
    """Reads tensors of a checkpoint, each when it is asked for, and packs each matrix before the next has any memory.

    So the peak is what has been packed and one matrix, plain.

    Args:
        tensors: of the checkpoint; their names and shapes have been checked.
        device: where the weights are to be.
        dtype: that of plain weights, and what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.
        progress: called with bytes done and in all, of the files, after each tensor.
    """

    def __init__(
        self,
        tensors: Mapping[str, StoredTensor],
        device: torch.device | str,
        dtype: torch.dtype,
        formats: WeightFormats | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(device, dtype, formats)
        self._tensors = tensors
        self._progress = progress
        self._seen: set[str] = set()
        self._done = 0
        self._total = sum(tensor.num_bytes for tensor in tensors.values())

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Read a tensor."""
        place = self._noted_tensor(self._empty(*shape, dtype=dtype))
        self._read(name, place)
        return place

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        """Read an embedding, and pack it."""
        name = f"{name}.weight"
        kept = self._kept(name, vocab, hidden, is_embedding=True)
        if kept.codes is not None:
            return self._noted(Int4Embedding(self._codes([name]), self.device, self.dtype))
        if kept.is_packed and self._formats is not None and self._formats.packed is not None:
            return self._noted(Int8Embedding(self._slabs(name), (vocab, hidden), self.device, self.dtype))
        place = self._empty(vocab, hidden, dtype=kept.narrow)
        self._read(name, place)
        return self._embedded(place) if kept.narrow is None else self._noted(PlainEmbedding(place, self.dtype))

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Read the parts, join neighbours that are kept in the same form, and pack them."""
        matrices = []
        for kept, names in groupby(parts, lambda name: self._kept(f"{name}.weight", parts[name], inputs)):
            some = {name: parts[name] for name in names}
            added = self._joined("bias", some) if bias else None
            if kept.codes is not None:
                assert self._formats is not None
                assert self._formats.coded is not None
                matrices.append(self._formats.coded(self._codes([f"{name}.weight" for name in some]), added))
            else:
                narrow = self._formats.narrow if self._formats and kept.narrow else None
                made = narrow or self._format(head=head, packed=kept.is_packed)
                matrices.append(made(self._joined("weight", some, inputs, dtype=kept.narrow), added))
        return self._made(*matrices)

    def repeats(self, name: str, other: str) -> bool:
        """Return whether a tensor, which is not read again, is equal to another."""
        same = torch.equal(self._tensors[name].expand().float(), self._tensors[other].expand().float())
        self._done_with(name)
        return same

    def _kept(self, name: str, outputs: int, inputs: int, *, is_embedding: bool = False) -> Kept:
        return choose_kept(self._tensors[name], self._formats, outputs, inputs, is_embedding=is_embedding)

    def _joined(self, kind: str, parts: Mapping[str, int], *columns: int, dtype: torch.dtype | None = None) -> Tensor:
        """Read the parts' weights or biases into one tensor, of the source's dtype if none is given."""
        whole = self._empty(sum(parts.values()), *columns, dtype=dtype)
        for name, rows in zip(parts, torch.split(whole, list(parts.values())), strict=True):
            self._read(f"{name}.{kind}", rows)
        return whole

    def _codes(self, names: Sequence[str]) -> GroupCodes:
        """Read matrices of the same format in their own codes, one behind the other."""
        return GroupCodes.joined(self._code_slabs(names), sum(self._tensors[name].shape[0] for name in names))

    def _code_slabs(self, names: Sequence[str]) -> Iterator[GroupCodes]:
        for name in names:
            stored = self._tensors[name]
            yield from (stored.codes(rows) for rows in _slab_rows(stored))
            self._done_with(name)

    def _read(self, name: str, place: Tensor) -> None:
        """Read a tensor into its place."""
        done = 0
        for part in self._slabs(name):
            # Cast on the CPU: not every device casts from every dtype.
            place[done : done + part.shape[0]].copy_(part.to(place.dtype))
            done += part.shape[0]

    def _slabs(self, name: str) -> Iterator[Tensor]:
        """Read a tensor in plain numbers; a matrix of few bits in pieces of some rows, which are larger in full."""
        stored = self._tensors[name]
        if len(stored.shape) == 2 and stored.form not in PLAIN_FORMS:
            yield from (stored.expand(rows) for rows in _slab_rows(stored))
        else:
            yield stored.expand(ALL)
        self._done_with(name)

    def _done_with(self, name: str) -> None:
        """Count a tensor that was read, the first time that it is."""
        if name not in self._seen:
            self._seen.add(name)
            self._done += self._tensors[name].num_bytes
            if self._progress is not None:
                self._progress(self._done, self._total)


def _slab_rows(stored: StoredTensor) -> Iterator[slice]:
    """Return the rows of each slab of a matrix."""
    rows, columns = stored.shape
    step = max(1, SLAB // columns)
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


def check_shapes(found: Mapping[str, StoredTensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise CheckpointError, naming a tensor, unless `found` has the names and shapes `expected`."""
    for name in sorted(expected.keys() - found.keys()):
        raise CheckpointError(f"{name}: is missing from the weights")
    for name in sorted(found.keys() - expected.keys()):
        raise CheckpointError(f"{found[name].file}: {name} belongs to no part of this architecture")
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise CheckpointError(
                f"{found[name].file}: {name} is {list(found[name].shape)}, config.json makes it {list(shape)}"
            )
