"""Source of a model's weights: its files, or a random number generator, or nowhere.

A layer constructs itself from a source, part by part, so it says once what it reads.  The same words then load it,
check the files before anything is allocated, and draw random weights for benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.nn.matrices.embedding import Int8Embedding, PlainEmbedding
from runtime.nn.matrices.linear import Linear, PlainMatrix, dtype_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.nn.matrices.embedding import Embedding
    from runtime.nn.matrices.linear import MatrixFormat, WeightFormats, WeightMatrix


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

        In full the two are one tensor, unless products want another layout.  In few bits each has its own: the kernels
        want other layouts of a head.
        """
        if not isinstance(embedding, PlainEmbedding):
            return self.linear({name: vocab}, hidden, head=True)
        weight = embedding.weight
        narrow = self._formats.narrow if self._formats and weight.dtype != self.dtype else None
        head = Linear((narrow or self._format(head=True))(weight, None))
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
        """Return ones for a norm or a factor, and else random numbers."""
        place = self._noted_tensor(self._empty(*shape, dtype=dtype))
        return place.fill_(1.0) if name.endswith(("norm.weight", "scalar")) else self._fill(place)

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
