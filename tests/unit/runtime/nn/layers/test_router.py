"""Router: which experts a row goes through, and with which weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from runtime.checkpoint.layer_config import ExpertsConfig, Gating
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
    """Rows are rounded, as they come; the weight, and what is computed with both, is not."""
    rows = _rows(torch.bfloat16)
    weight = RandomSource(CPU, torch.float32, seed=1).tensor("weight", COUNT, HIDDEN)
    routes = _router(dtype=torch.bfloat16)(rows)
    largest = (rows.double() @ weight.double().T).topk(PER_ROW, dim=-1)
    assert torch.equal(routes.experts, largest.indices)
    torch.testing.assert_close(routes.weights.double(), torch.softmax(largest.values, dim=-1), atol=1e-5, rtol=1e-5)


# --- groups ---------------------------------------------------------------------------------------------------------


def _grouped(gating: Gating, **settings: Any) -> ExpertsConfig:  # noqa: ANN401
    return ExpertsConfig(12, 3, 8, gating, groups=4, groups_per_row=2, scaling=1.5, **settings)


def _chosen(scores: list[float], rated_by: int) -> list[int]:
    """The best three experts of the two best of four groups, written out."""
    groups = [range(3 * group, 3 * group + 3) for group in range(4)]
    rated = sorted(groups, key=lambda group: sum(sorted((scores[e] for e in group), reverse=True)[:rated_by]))
    return sorted((e for group in rated[2:] for e in group), key=lambda e: scores[e], reverse=True)[:3]


def test_a_group_s_best_expert_opens_it_for_a_row() -> None:
    """DeepSeek-V2: the weights are shares of all experts."""
    routes = Router(RandomSource(CPU, torch.float32, seed=1), HIDDEN, _grouped("softmax", normalised=False))(_rows())
    weight = RandomSource(CPU, torch.float32, seed=1).tensor("weight", 12, HIDDEN)
    shares = torch.softmax((_rows() @ weight.T).double(), dim=-1)
    assert routes.experts.tolist() == [_chosen(row, 1) for row in shares.tolist()]
    assert routes.experts.tolist() != shares.topk(3).indices.tolist(), "groups do not matter here"
    torch.testing.assert_close(routes.weights.double(), 1.5 * shares.gather(1, routes.experts), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("normalised", [False, True])
def test_a_correction_chooses_and_does_not_weigh(normalised: bool) -> None:
    """DeepSeek-V3: a group is rated by its two best experts, correction included."""
    source = RandomSource(CPU, torch.float32, seed=1)
    router = Router(source, HIDDEN, _grouped("sigmoid", normalised=normalised))
    assert router.correction is not None
    router.correction.mul_(20)
    routes = router(_rows())
    scores = (_rows() @ router.weight.T).double().sigmoid()
    corrected = scores + router.correction.double()
    assert routes.experts.tolist() == [_chosen(row, 2) for row in corrected.tolist()]
    assert routes.experts.tolist() != [_chosen(row, 2) for row in scores.tolist()], "the correction does not matter"
    weights = scores.gather(1, routes.experts)
    if normalised:
        weights /= weights.sum(-1, keepdim=True)
    torch.testing.assert_close(routes.weights.double(), 1.5 * weights, atol=1e-6, rtol=1e-5)


def test_shares_may_have_a_correction_too() -> None:
    """Ernie 4.5."""
    config = ExpertsConfig(COUNT, PER_ROW, 8, "corrected_softmax")
    router = Router(RandomSource(CPU, torch.float32, seed=1), HIDDEN, config)
    assert router.correction is not None
    router.correction.mul_(20)
    routes = router(_rows())
    shares = torch.softmax(_logits(_rows(), bias=False).double(), dim=-1)
    assert routes.experts.tolist() == (shares + router.correction).topk(PER_ROW).indices.tolist()
    assert routes.experts.tolist() != shares.topk(PER_ROW).indices.tolist(), "the correction does not matter"
    weights = shares.gather(1, routes.experts)
    torch.testing.assert_close(routes.weights.double(), weights / weights.sum(-1, keepdim=True), atol=1e-6, rtol=1e-5)


def test_the_correction_is_kept_in_float32() -> None:
    """Rounded to eight bits it would choose other experts."""
    router = Router(RandomSource(CPU, torch.bfloat16, seed=1), HIDDEN, _grouped("sigmoid"))
    assert router.correction is not None
    assert router.correction.dtype == torch.float32
    assert not torch.equal(router.correction, router.correction.bfloat16().float())
