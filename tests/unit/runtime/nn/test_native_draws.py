"""Tokens drawn by the kernels: each as likely as the reference says, and the same as PyTorch's operations draw."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.nn.native_draws import NativeDraws
from runtime.sampling import tokens
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from tests.models.chi_square import filtered
from tests.models.sampler_driver import sample
from tests.rows import every_row
from tests.unit.runtime.sampling.sampler_rows import FILTERS, VOCAB, random_logits, spec_of

if TYPE_CHECKING:
    from runtime.devices.native.kernels import Kernels

GREEDY = SamplingParams(temperature=0)
SETTINGS: list[dict[str, Any]] = [
    *FILTERS,
    {"temperature": 1e9},
    {"top_k": VOCAB - 1},
    {"top_k": 10**400},
    {"temperature": 2.0, "top_k": 3, "top_p": 0.999, "min_p": 0.001},
]


@pytest.fixture(scope="module")
def draws(kernels: Kernels) -> NativeDraws:
    return NativeDraws(kernels)


NUMBERS = 5000


def shares(
    draws: NativeDraws, logits: torch.Tensor, params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> torch.Tensor:
    """Return how often each token of one row is drawn, `[vocab]`, by numbers that are evenly spaced."""
    monkeypatch.setattr(tokens, "uniform", lambda seed, position, stream: (position + 0.5) / NUMBERS)
    specs = [SampleSpec(replace(params, seed=0), position, 0) for position in range(NUMBERS)]
    drawn = draws.draw(logits.expand(NUMBERS, -1), specs)
    assert drawn.equal(drawn.sort().values)  # by inversion
    return torch.bincount(drawn, minlength=logits.shape[-1]) / NUMBERS


@every_row("settings", SETTINGS)
@every_row("ties", [False, True])
def test_each_token_is_drawn_as_often_as_the_reference_says(
    draws: NativeDraws, settings: dict[str, Any], ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(**settings)
    for seed in range(2):
        logits = random_logits(1, seed=seed, ties=ties)
        expected = torch.tensor(filtered(logits[0].tolist(), params), dtype=torch.float64)
        found = shares(draws, logits, params, monkeypatch)
        assert not found[expected == 0].any()
        assert (found[expected > 2 / NUMBERS] > 0).all()
        assert (found - expected).abs().max() <= 1.01 / NUMBERS


@every_row("vocab", [1, 2, 15, 16, 17, 63, 64, 65, 127, 1001, 32_003])
def test_it_is_the_token_that_pytorch_s_operations_draw(draws: NativeDraws, vocab: int) -> None:
    """In vocabularies of whole blocks and others; but for a number on a border, of which there is none here."""
    params = [GREEDY, *(SamplingParams(**settings) for settings in SETTINGS)]
    for ties in (False, True):
        logits = random_logits(len(params), vocab=vocab, seed=vocab, ties=ties)
        specs = [spec_of(replace(one, seed=i), i) for i, one in enumerate(params)]
        expected = [drawn.token.token_id for drawn in sample(logits, specs)]
        assert draws.draw(logits, specs).tolist() == expected


def test_top_p_is_a_share_of_what_as_many_tokens_weigh_as_top_k_says(
    draws: NativeDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are as heavy as the last of them, too."""
    logits = torch.tensor([[4.0, *6 * [1.0]]]).log()
    assert shares(draws, logits, SamplingParams(top_k=2, top_p=0.75), monkeypatch)[0] == 1


@every_row("vocab", [8, 64, 1001])
@every_row("filters", [{}, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 1e-3}])
def test_what_is_banned_is_never_drawn(
    draws: NativeDraws, vocab: int, filters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = SamplingParams(seed=0, **filters)
    extremes = [0.5 / 2**22, 0.5, (2**22 - 0.5) / 2**22]
    monkeypatch.setattr(tokens, "uniform", lambda seed, position, stream: extremes[position])
    for allowed in range(1, 8):
        for first in (0, 1, vocab - allowed):
            logits = torch.full((4, vocab), -math.inf)
            logits[:, first : first + allowed] = torch.linspace(0, 1.7, allowed)
            specs = [*(SampleSpec(params, position, 0) for position in range(3)), SampleSpec(GREEDY, 0, 0)]
            drawn = draws.draw(logits, specs)
            assert ((first <= drawn) & (drawn < first + allowed)).all()


def test_the_extreme_numbers_reach_the_extreme_tokens(draws: NativeDraws, monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = [0.5 / 2**22, (2**22 - 0.5) / 2**22]
    monkeypatch.setattr(tokens, "uniform", lambda seed, position, stream: extremes[position])
    for vocab in (50, 64, 130):
        specs = [SampleSpec(SamplingParams(seed=0), position, 0) for position in range(2)]
        assert draws.draw(torch.zeros(2, vocab), specs).tolist() == [0, vocab - 1]


def test_a_number_on_a_border_takes_the_next_token(draws: NativeDraws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "uniform", lambda *key: 0.5)
    logits = torch.tensor([[1.0, -math.inf, 1.0]])
    assert draws.draw(logits, [SampleSpec(SamplingParams(seed=1), 0, 0)]).tolist() == [2]


@pytest.mark.parametrize("temperature", [1e-6, 1e-30, 1e-42, 1e-300])
def test_a_tiny_temperature_is_greedy(draws: NativeDraws, temperature: float) -> None:
    logits = random_logits(5)
    specs = [spec_of(SamplingParams(temperature=temperature, seed=3))] * 5
    assert draws.draw(logits, specs).equal(logits.argmax(-1))


def test_of_equal_tokens_the_first_is_the_likeliest(draws: NativeDraws) -> None:
    logits = torch.zeros(3, 200)
    logits[0, 77:] = 1.0
    logits[1, [130, 199]] = 5.0
    assert draws.draw(logits, [SampleSpec(GREEDY, 0, 0)] * 3).tolist() == [77, 130, 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_where_logits_are_not_finite_some_token_is_drawn_and_neighbours_do_not_notice(
    draws: NativeDraws, bad: float
) -> None:
    """The step says of the row that it is not finite."""
    specs = [spec_of(replace(one, seed=2)) for one in (GREEDY, *(SamplingParams(**s) for s in SETTINGS))]
    for vocab in (50, 64, 200):
        logits = random_logits(1, vocab=vocab).repeat(2 * len(specs), 1)
        for place in (slice(17, 18), slice(None), slice(vocab - 1, None)):
            broken = logits.clone()
            broken[: len(specs), place] = bad
            found = draws.draw(broken, 2 * specs)
            assert ((found >= 0) & (found < vocab)).all()
            assert found[len(specs) :].equal(draws.draw(logits, 2 * specs)[len(specs) :])


def test_a_row_does_not_depend_on_its_neighbours(draws: NativeDraws) -> None:
    specs = [spec_of(replace(SamplingParams(**settings), seed=i), i) for i, settings in enumerate(SETTINGS)]
    logits = random_logits(len(specs), vocab=5000)
    together = draws.draw(logits, specs)
    for i, spec in enumerate(specs):
        assert draws.draw(logits[i : i + 1], [spec]).item() == together[i]


def test_rows_that_do_not_lie_in_order_are_read_right(draws: NativeDraws) -> None:
    logits = random_logits(4, vocab=100)
    specs = [spec_of(replace(GREEDY, top_k=3))] * 4
    assert draws.draw(logits.T.contiguous().T, specs).equal(logits.argmax(-1))
