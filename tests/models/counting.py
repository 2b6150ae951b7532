"""Experts that count: who was read, and for how many rows."""

from __future__ import annotations

import torch

from runtime.nn.layers.experts import MixtureOfExperts
from runtime.nn.layers.mlp import Mlp


def count_experts(mixture: MixtureOfExperts) -> list[tuple[int, int]]:
    """Put a counter before each expert; the list gets an expert's number and its rows with each use."""
    calls: list[tuple[int, int]] = []

    class Counting:
        """An expert that notes its use."""

        def __init__(self, index: int, expert: Mlp) -> None:
            self._index, self._expert = index, expert
            self.nbytes = expert.nbytes

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            """Note, and transform."""
            calls.append((self._index, len(x)))
            return self._expert(x)

    mixture.experts = [Counting(index, expert) for index, expert in enumerate(mixture.experts)]  # type: ignore[misc]
    return calls
