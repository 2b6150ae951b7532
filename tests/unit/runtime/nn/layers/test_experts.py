"""A mixture of experts against its definition, and which experts are read for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from runtime.checkpoint.layer_config import ExpertsConfig
from runtime.nn.layers.experts import MixtureOfExperts, clamped_swiglu
from runtime.nn.source import RandomSource
from tests.models.counting import count_experts
from tests.models.step_driver import CPU

HIDDEN, COUNT, PER_ROW, INNER = 16, 6, 2, 12


@pytest.fixture
def mixture() -> MixtureOfExperts:
    return MixtureOfExperts(RandomSource(CPU, torch.float32, seed=3), HIDDEN, ExpertsConfig(COUNT, PER_ROW, INNER))


def _rows(count: int, seed: int = 4) -> torch.Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed)) * 20


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_it_is_the_weighted_sum_of_a_row_s_experts(mixture: MixtureOfExperts, rows: int) -> None:
    x = _rows(rows)
    weights, chosen = mixture.router(x)
    assert mixture(x).shape == x.shape
    for row, result in enumerate(mixture(x)):
        terms = [
            weight * mixture.experts[expert](x[row : row + 1])[0]
            for weight, expert in zip(weights[row], chosen[row].tolist(), strict=True)
        ]
        torch.testing.assert_close(result, torch.stack(terms).sum(0))


def test_neighbours_change_nothing_but_the_rounding(mixture: MixtureOfExperts) -> None:
    x = _rows(40)
    together = mixture(x)
    for row in range(len(x)):
        torch.testing.assert_close(together[row : row + 1], mixture(x[row : row + 1]))


def test_all_rows_go_through_the_shared_mlp_too(mixture: MixtureOfExperts) -> None:
    config = ExpertsConfig(COUNT, PER_ROW, INNER, shared_size=2 * INNER)
    with_shared = MixtureOfExperts(RandomSource(CPU, torch.float32, seed=3), HIDDEN, config)
    assert with_shared.shared is not None
    x = _rows(5)
    torch.testing.assert_close(with_shared(x), mixture(x) + with_shared.shared(x))
    assert with_shared.nbytes == mixture.nbytes + with_shared.shared.nbytes


def _met(mixture: MixtureOfExperts, x: torch.Tensor) -> set[int]:
    return {expert for row in mixture.router(x).experts.tolist() for expert in row}


def _counted(mixture: MixtureOfExperts, x: torch.Tensor) -> Sequence[tuple[int, int]]:
    calls = count_experts(mixture)
    mixture(x)
    return calls


@pytest.mark.parametrize("rows", [1, 2, 3, 40])
def test_each_expert_that_is_met_is_read_once_and_no_other_at_all(mixture: MixtureOfExperts, rows: int) -> None:
    x = _rows(rows)
    met = _met(mixture, x)
    assert len(met) < COUNT or rows > 3
    calls = _counted(mixture, x)
    assert [expert for expert, _ in calls] == sorted(met)
    assert sum(rows for _, rows in calls) == rows * PER_ROW


def test_gpt_oss_s_swiglu_is_clamped() -> None:
    gate, up = torch.tensor([[-20.0, -1.0, 2.0, 20.0]]), torch.tensor([[9.0, -9.0, 0.5, 3.0]])
    bounded = torch.tensor([[-20.0, -1.0, 2.0, 7.0]])
    expected = bounded / (1 + torch.exp(-1.702 * bounded)) * (torch.tensor([[7.0, -7.0, 0.5, 3.0]]) + 1)
    torch.testing.assert_close(clamped_swiglu(gate, up, (1.702, 7.0)), expected)
