"""Frequency of each token that is drawn, against statistics that a wrong sampler fails."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.sampling import random_numbers, sampler, tokens
from runtime.sampling.params import SamplingParams
from runtime.sampling.random_numbers import uniform
from tests.models.chi_square import chi_square, filtered
from tests.models.sampler_driver import distribution, sample
from tests.unit.runtime.sampling.sampler_rows import VOCAB, random_logits, spec_of, token_of

if TYPE_CHECKING:
    from collections.abc import Callable


NEARLY_ONE, NEARLY_ZERO = (2**22 - 0.5) / 2**22, 0.5 / 2**22  # the extremes of `uniform`


# --- goodness of fit ----------------------------------------------------------------------------------------------

DRAWS = 20_000
SMALL = torch.tensor([[1.0, -1.0, 0.5, 2.0, -0.5, 0.0, 1.5, -3.0]])


def _fit(params: SamplingParams) -> tuple[float, float]:
    """Chi-square of the draws at so many positions, and its limit."""
    drawn = sample(SMALL.expand(DRAWS, -1), [spec_of(params, position) for position in range(DRAWS)])
    return chi_square(Counter(d.token.token_id for d in drawn), filtered(SMALL[0].tolist(), params))


SETTINGS: list[dict[str, Any]] = [
    {"seed": 1},
    {"seed": 2, "temperature": 0.4},
    {"seed": 3, "temperature": 1.8},
    {"seed": 4, "top_p": 0.8},
    {"seed": 5, "temperature": 1.3, "top_p": 0.6},
    {"seed": 6, "top_k": 3},
    {"seed": 7, "min_p": 0.2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_tokens_are_drawn_as_often_as_they_should_be(settings: dict[str, Any]) -> None:
    statistic, limit = _fit(SamplingParams(**settings))
    assert statistic < limit


WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "off by one": lambda right: right.roll(1, -1),
    "too sharp": lambda right: right**1.25,
    "nothing filtered or rare": lambda right: right.clamp(min=0.1),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("settings", SETTINGS[:5:2], ids=str)
def test_a_wrong_sampler_does_not_pass(settings: dict[str, Any], wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sampler.distribution
    monkeypatch.setattr(sampler, "distribution", lambda logits, asked: WRONG[wrong](right(logits, asked)))
    statistic, limit = _fit(SamplingParams(**settings))
    assert statistic > limit


@pytest.mark.parametrize("number", [NEARLY_ZERO, NEARLY_ONE, 0.5])
@pytest.mark.parametrize("vocab", [8, 1001])
def test_tokens_of_no_probability_are_never_drawn(number: float, vocab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "uniform", lambda *key: number)
    for total in range(1, 8):  # how many may be drawn: all sums of probabilities that rounding can make of them
        for first in (0, 1, vocab - total):
            logits = torch.full((1, vocab), -math.inf)
            logits[0, first : first + total] = torch.linspace(0, 1.7, total)
            assert first <= token_of(logits, spec_of(SamplingParams(seed=1))) < first + total


def test_the_extreme_numbers_reach_the_extreme_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.zeros(1, VOCAB)
    for number, token in ((NEARLY_ZERO, 0), (NEARLY_ONE, VOCAB - 1)):
        monkeypatch.setattr(tokens, "uniform", lambda *key, number=number: number)
        assert token_of(logits, spec_of(SamplingParams(seed=1))) == token


def test_a_number_on_a_border_takes_the_next_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "uniform", lambda *key: 0.5)
    assert token_of(torch.tensor([[1.0, -math.inf, 1.0]]), spec_of(SamplingParams(seed=1))) == 2


def test_uniform_is_bounded_by_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, number in ((0, NEARLY_ZERO), ((1 << 64) - 1, NEARLY_ONE)):
        monkeypatch.setattr(random_numbers, "splitmix64", lambda value, state=state: state)
        assert uniform(1, 1) == number
    assert torch.tensor(NEARLY_ONE).item() == NEARLY_ONE < 1  # in float32 too


def test_a_real_vocabulary() -> None:
    vocab = 151_936
    logits = random_logits(2, vocab=vocab)
    params = SamplingParams(temperature=0.7, top_k=20, top_p=0.9, seed=1, logprobs=20)
    drawn = sample(logits, [spec_of(params), spec_of(SamplingParams(temperature=2.0, seed=1))])
    assert drawn[0].token.token_id in logits[0].topk(20).indices
    assert 0 <= drawn[1].token.token_id < vocab


# --- sums that are not monotonic ------------------------------------------------------------------------------------


@pytest.fixture
def shaky_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cumulated sums as CUDA may give them, but much worse: off by up to a tenth of the whole, each its own way."""
    exact = torch.Tensor.cumsum
    generator = torch.Generator().manual_seed(8)

    def cumsum(values: torch.Tensor, dim: int) -> torch.Tensor:
        sums = exact(values, dim)
        return sums + 0.2 * (torch.rand(sums.shape, generator=generator) - 0.5) * sums[..., -1:]

    monkeypatch.setattr(torch.Tensor, "cumsum", cumsum)


@pytest.mark.usefixtures("shaky_sums")
@pytest.mark.parametrize("top_k", [1, 2, 7])
def test_a_filtered_token_is_never_drawn_whatever_sums_are_like(top_k: int) -> None:
    logits = random_logits(200)
    kept = logits >= logits.topk(top_k).values[:, -1:]
    for position in range(5):
        specs = [spec_of(SamplingParams(temperature=1.5, top_k=top_k, seed=row), position) for row in range(200)]
        tokens = [drawn.token.token_id for drawn in sample(logits, specs)]
        assert kept[torch.arange(200), torch.tensor(tokens)].all()


@pytest.mark.usefixtures("shaky_sums")
def test_a_sum_that_is_too_small_does_not_keep_all_that_lies_before_it() -> None:
    """Of a thousand tokens that are about as likely, half have half of the mass; some sums are a tenth too small."""
    logits = torch.linspace(0, -0.01, 1000)[None]
    kept = distribution(logits, [SamplingParams(temperature=1.0, top_p=0.5, seed=1)]) > 0
    assert 450 < kept.sum() < 550
