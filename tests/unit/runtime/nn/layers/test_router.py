"""Which experts a row goes through, and with which weights."""

from __future__ import annotations

import pytest
import torch

from runtime.checkpoint.experts_config import ExpertsConfig
from runtime.nn.layers.router import Router
from runtime.nn.source import RandomSource
from tests.models.step_driver import CPU

HIDDEN, COUNT, PER_ROW = 16, 6, 2


def _router(*, dtype: torch.dtype = torch.float32, normalised: bool = True, bias: bool = False) -> Router:
    config = ExpertsConfig(COUNT, PER_ROW, 8, normalised=normalised, bias=bias)
    return Router(RandomSource(CPU, dtype, seed=1), HIDDEN, config)


def _rows(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(20, HIDDEN, generator=torch.Generator().manual_seed(2)).to(dtype) * 20


def _logits(rows: torch.Tensor, *, bias: bool) -> torch.Tensor:
    """The router's scores, from the same random numbers."""
    source = RandomSource(CPU, torch.float32, seed=1)
    weight = source.tensor("weight", COUNT, HIDDEN)
    return rows @ weight.T + (source.tensor("bias", COUNT) if bias else 0)


@pytest.mark.parametrize("bias", [False, True])
def test_a_row_goes_to_the_experts_with_the_largest_logits(bias: bool) -> None:
    routes = _router(bias=bias)(_rows())
    assert routes.experts.tolist() == _logits(_rows(), bias=bias).argsort(-1, descending=True)[:, :PER_ROW].tolist()
    assert len({tuple(chosen) for chosen in routes.experts.tolist()}) > 5


@pytest.mark.parametrize("normalised", [False, True])
def test_weights_are_shares_of_all_experts_or_of_the_chosen(normalised: bool) -> None:
    routes = _router(normalised=normalised)(_rows())
    shares = torch.softmax(_logits(_rows(), bias=False).double(), dim=-1).gather(-1, routes.experts)
    if normalised:
        shares /= shares.sum(-1, keepdim=True)
    torch.testing.assert_close(routes.weights.double(), shares, atol=1e-6, rtol=1e-6)


def test_half_precision_rounds_no_logit() -> None:
    """Rows and weights are rounded, as they come; what is computed with them is not."""
    rows = _rows(torch.bfloat16)
    weight = RandomSource(CPU, torch.bfloat16, seed=1).tensor("weight", COUNT, HIDDEN)
    routes = _router(dtype=torch.bfloat16)(rows)
    largest = (rows.double() @ weight.double().T).topk(PER_ROW, dim=-1)
    assert torch.equal(routes.experts, largest.indices)
    torch.testing.assert_close(routes.weights.double(), torch.softmax(largest.values, dim=-1), atol=1e-5, rtol=1e-5)
