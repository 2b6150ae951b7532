"""Weights that were never filled, for tests that look at operations and not at numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from runtime.nn.matrices.embedding import Embedding
from runtime.nn.matrices.linear import Linear
from runtime.nn.source import WeightSource


class EmptySource(WeightSource):
    """Gives memory as it is found."""

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of that shape."""
        return self._empty(*shape, dtype=dtype)

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        """Return one of that shape."""
        return self._embedded(self._empty(vocab, hidden))

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        """Return a matrix of that shape."""
        outputs = sum(parts.values())
        return self._made(self._format(head=head)(self._empty(outputs, inputs), self._empty(outputs) if bias else None))
