"""Where the weights of a model come from: its files, or a random number generator, or nowhere.

A layer constructs itself from a source, part by part, so it says once what it reads.  The same words then load it,
check the files before anything is allocated, and draw random weights for benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.errors import CheckpointError
from runtime.nn.matrices.linear import Linear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.checkpoint.stored import StoredTensor
    from runtime.nn.matrices.linear import WeightFormats


class WeightSource(ABC):
    """Gives the weights of a model, by their canonical names.

    Args:
        device: where the weights are to be.
        dtype: that of plain weights, and what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.
    """

    def __init__(self, device: torch.device | str, dtype: torch.dtype, formats: WeightFormats | None = None) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self._formats = formats

    @abstractmethod
    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor that stays plain, such as a norm's weight; None is the dtype of all others."""

    @abstractmethod
    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a product with a matrix that may be made of several in the file.

        Args:
            parts: the modules whose outputs follow one another, without `.weight`, each with its number of outputs.
            inputs: columns of each.
            bias: whether each has a bias, too.
            head: it is the model's head, which has a format of its own.
        """

    def tied_head(self, embedding: Tensor) -> Linear:
        """Return the head of a model that shares its embedding, `[vocab, hidden]`."""
        return self._packed(Linear(embedding), head=True)

    def under(self, prefix: str) -> WeightSource:
        """Return the same source for the names below `prefix`."""
        return _Under(self, prefix)

    def _packed(self, linear: Linear, *, head: bool) -> Linear:
        if self._formats is not None:
            linear.pack(self._formats.head if head else self._formats.layers)
        return linear

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

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a plain matrix of that shape."""
        for name, outputs in parts.items():
            self.shapes[f"{name}.weight"] = (outputs, inputs)
            if bias:
                self.shapes[f"{name}.bias"] = (outputs,)
        outputs = sum(parts.values())
        self.matrices.append((outputs, inputs))
        return Linear(self._empty(outputs, inputs), self._empty(outputs) if bias else None)


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
        place = self._empty(*shape, dtype=dtype)
        return place.fill_(1.0) if name.endswith("norm.weight") else self._fill(place)

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a matrix of random numbers."""
        outputs = sum(parts.values())
        return self._packed(Linear(self._draw(outputs, inputs), self._draw(outputs) if bias else None), head=head)

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
        self._done = 0
        self._total = sum(tensor.num_bytes for tensor in tensors.values())

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Read a tensor."""
        place = self._empty(*shape, dtype=dtype)
        self._read(name, place)
        return place

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Read the parts into one matrix, and pack it."""
        outputs = sum(parts.values())
        linear = Linear(self._empty(outputs, inputs), self._empty(outputs) if bias else None)
        for kind, whole in (("weight", linear.weight), ("bias", linear.bias)):
            if whole is not None:
                for name, rows in zip(parts, torch.split(whole, list(parts.values())), strict=True):
                    self._read(f"{name}.{kind}", rows)
        return self._packed(linear, head=head)

    def _read(self, name: str, place: Tensor) -> None:
        stored = self._tensors[name]
        # Cast on the CPU: not every device casts from every dtype.
        place.copy_(stored.expand().to(place.dtype))
        self._done += stored.num_bytes
        if self._progress is not None:
            self._progress(self._done, self._total)


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
