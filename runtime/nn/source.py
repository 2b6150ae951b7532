"""Where the weights of a model come from: its files, or a random number generator, or nowhere.

A layer constructs itself from a source, part by part, so it says once what it reads.  The same words then load it,
check the files before anything is allocated, and draw random weights for benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.checkpoint.stored import ALL, PLAIN_FORMS, GroupCodes
from runtime.errors import CheckpointError
from runtime.nn.matrices.embedding import Int4Embedding, Int8Embedding, PlainEmbedding
from runtime.nn.matrices.linear import Linear, PlainMatrix, dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runtime.checkpoint.stored import CodeFormat, StoredTensor
    from runtime.nn.matrices.embedding import Embedding
    from runtime.nn.matrices.linear import MatrixFormat, WeightFormats, WeightMatrix

SLAB = 2**24  # numbers of a matrix of few bits that are in full, or taken apart, at a time


class WeightSource(ABC):
    """Gives the weights of a model, by their canonical names.

    Args:
        device: where the weights are to be.
        dtype: that of plain weights, and what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.

    Attributes:
        nbytes_by_form: what was given so far, by the form of the weights: `bfloat16`, `int8`, `int4 by 32`.
    """

    def __init__(self, device: torch.device | str, dtype: torch.dtype, formats: WeightFormats | None = None) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self.nbytes_by_form: Counter[str] = Counter()
        self._formats = formats

    @abstractmethod
    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor that stays plain, such as a norm's weight; None is the dtype of all others."""

    @abstractmethod
    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        """Return the embedding `name`, without `.weight`."""

    @abstractmethod
    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a product with a matrix that may be made of several in the file.

        Args:
            parts: the modules whose outputs follow one another, without `.weight`, each with its number of outputs.
            inputs: columns of each.
            bias: whether each has a bias, too.
            head: it is the model's head, which has a format of its own.
        """

    def tied_head(self, name: str, embedding: Embedding, vocab: int, hidden: int) -> Linear:
        """Return the head of a model that shares its embedding, which is called `name`.

        In full the two are one tensor.  In few bits each has its own: the kernels want other layouts of a head.
        """
        if not isinstance(embedding, PlainEmbedding):
            return self.linear({name: vocab}, hidden, head=True)
        head = Linear(self._format(head=True)(embedding.weight, None))
        if not head.shares(embedding.weight):
            self.nbytes_by_form += head.nbytes_by_form
        return head

    def under(self, prefix: str) -> WeightSource:
        """Return the same source for the names below `prefix`."""
        return _Under(self, prefix)

    def _format(self, *, head: bool, packed: bool = False) -> MatrixFormat:
        """Return the format of a matrix that the files have in full, or, if `packed`, in few bits."""
        if self._formats is None:
            return PlainMatrix
        formats = self._formats
        if packed and formats.packed is not None:
            return (formats.packed_head if head else None) or formats.packed
        return formats.head if head else formats.layers

    def _made(self, *matrices: WeightMatrix) -> Linear:
        """Note what matrices take, and join their outputs."""
        linear = Linear(*matrices)
        self.nbytes_by_form += linear.nbytes_by_form
        return linear

    def _noted(self, embedding: Embedding) -> Embedding:
        """Note what an embedding takes."""
        self.nbytes_by_form[embedding.form] += embedding.nbytes
        return embedding

    def _embedded(self, weight: Tensor) -> Embedding:
        """Bring a plain embedding, `[vocab, hidden]`, to its form."""
        if self._formats is None or not self._formats.small_embedding:
            return self._noted(PlainEmbedding(weight))
        shape = weight.shape[0], weight.shape[1]
        return self._noted(Int8Embedding([weight], shape, self.device, self.dtype))

    def _noted_tensor(self, tensor: Tensor) -> Tensor:
        """Note what a plain tensor takes."""
        self.nbytes_by_form[dtype_name(tensor.dtype)] += tensor.nbytes
        return tensor

    def _empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(shape, device=self.device, dtype=dtype or self.dtype)


class _Under(WeightSource):
    """Part of the names of another source."""

    def __init__(self, source: WeightSource, prefix: str) -> None:
        super().__init__(source.device, source.dtype)
        self._source = source
        self._prefix = prefix

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return self._source.tensor(f"{self._prefix}.{name}", *shape, dtype=dtype)

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        return self._source.embedding(f"{self._prefix}.{name}", vocab, hidden)

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        named = {f"{self._prefix}.{name}": outputs for name, outputs in parts.items()}
        return self._source.linear(named, inputs, bias=bias, head=head)


class ShapeSource(WeightSource):
    """Gives tensors that have a shape and no memory, and notes all of them.

    Attributes:
        shapes: of each tensor in the file, by its name, in the order in which they were asked for.
        matrices: outputs and inputs of each matrix, those in the file joined.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__("meta", dtype)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.matrices: list[tuple[int, int]] = []

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of that shape."""
        self.shapes[name] = shape
        return self._empty(*shape, dtype=dtype)

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        """Return a plain embedding of that shape."""
        return PlainEmbedding(self.tensor(f"{name}.weight", vocab, hidden))

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a plain matrix of that shape."""
        for name, outputs in parts.items():
            self.shapes[f"{name}.weight"] = (outputs, inputs)
            if bias:
                self.shapes[f"{name}.bias"] = (outputs,)
        outputs = sum(parts.values())
        self.matrices.append((outputs, inputs))
        return Linear(PlainMatrix(self._empty(outputs, inputs), self._empty(outputs) if bias else None))


class RandomSource(WeightSource):
    """Draws normal weights of standard deviation 0.02, with norms of one.

    They are the same on every run with the same `seed`, device type and dtype.
    """

    def __init__(
        self, device: torch.device | str, dtype: torch.dtype, seed: int, formats: WeightFormats | None = None
    ) -> None:
        super().__init__(device, dtype, formats)
        self._generator = torch.Generator(device=self.device).manual_seed(seed)

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return ones for a norm, and else random numbers."""
        place = self._noted_tensor(self._empty(*shape, dtype=dtype))
        return place.fill_(1.0) if name.endswith("norm.weight") else self._fill(place)

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        """Return random numbers."""
        return self._embedded(self._draw(vocab, hidden))

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a matrix of random numbers."""
        outputs = sum(parts.values())
        drawn = self._draw(outputs, inputs), self._draw(outputs) if bias else None
        return self._made(self._format(head=head)(*drawn))

    def _draw(self, *shape: int) -> Tensor:
        return self._fill(self._empty(*shape))

    def _fill(self, place: Tensor) -> Tensor:
        return place.normal_(0.0, 0.02, generator=self._generator)


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
        stored = self._tensors[name]
        if self._formats is not None and self._is_packed(name):
            if self._formats.coded is not None and Int4Embedding.takes(stored.code_format, hidden):
                return self._noted(Int4Embedding(self._codes([name]), self.device, self.dtype))
            if self._formats.packed is not None:
                parts = self._slabs(name)
                return self._noted(Int8Embedding(parts, (vocab, hidden), self.device, self.dtype))
        place = self._empty(vocab, hidden)
        self._read(name, place)
        return self._embedded(place)

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Read the parts, join neighbours that are kept in the same form, and pack them."""
        matrices = []
        for (codes, packed), names in groupby(parts, lambda name: self._kept(f"{name}.weight", parts[name], inputs)):
            some = {name: parts[name] for name in names}
            added = self._joined("bias", some) if bias else None
            if codes is not None:
                assert self._formats is not None
                assert self._formats.coded is not None
                matrices.append(self._formats.coded(self._codes([f"{name}.weight" for name in some]), added))
            else:
                made = self._format(head=head, packed=packed)
                matrices.append(made(self._joined("weight", some, inputs), added))
        return self._made(*matrices)

    def repeats(self, name: str, other: str) -> bool:
        """Whether a tensor, which is not read again, is equal to another."""
        same = torch.equal(self._tensors[name].expand().float(), self._tensors[other].expand().float())
        self._done_with(name)
        return same

    def _kept(self, name: str, outputs: int, inputs: int) -> tuple[CodeFormat | None, bool]:
        """Return the format of the codes that are kept of a matrix, if any, and else whether it is of few bits."""
        codes, coded = self._tensors[name].code_format, self._formats and self._formats.coded
        if coded and codes is not None and coded.takes(outputs, inputs, codes):
            return codes, True
        return None, self._is_packed(name)

    def _is_packed(self, name: str) -> bool:
        """Whether the files have it in few bits."""
        return self._tensors[name].form not in PLAIN_FORMS

    def _joined(self, kind: str, parts: Mapping[str, int], *columns: int) -> Tensor:
        """Read the parts' weights or biases into one tensor."""
        whole = self._empty(sum(parts.values()), *columns)
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
        if len(stored.shape) == 2 and self._is_packed(name):
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
