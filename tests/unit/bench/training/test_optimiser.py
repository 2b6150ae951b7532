"""Muon makes a matrix nearly orthogonal, and both optimisers go down a slope."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.training.optimiser import Optimiser, orthogonalise


@pytest.mark.parametrize("shape", [(24, 24), (48, 16), (16, 48)])
def test_singular_values_come_near_to_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = orthogonalise(matrix)
    assert found.shape == shape
    values = torch.linalg.svdvals(found)
    assert 0.3 < values.min() <= values.max() < 1.3
    assert torch.linalg.svdvals(matrix).max() > 3


def test_a_layer_learns_a_map() -> None:
    generator = torch.Generator().manual_seed(2)
    wanted, given = torch.randn(8, 8, generator=generator), torch.randn(64, 8, generator=generator)
    torch.manual_seed(3)
    layer = nn.Linear(8, 8)
    optimiser = Optimiser(layer, matrix_rate=0.05, other_rate=0.01)
    losses = []
    for step in range(300):
        loss = (layer(given) - given @ wanted.T).square().mean()
        loss.backward()
        optimiser.step(1 - step / 300)
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    assert all(parameter.grad is None for parameter in layer.parameters())
