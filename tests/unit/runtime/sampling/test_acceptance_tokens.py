"""Drafts do not change how often a token comes: statistics that a wrong rule of acceptance fails."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.sampling import acceptance
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from tests.models.chi_square import chi_square
from tests.models.sampler_driver import verify
from tests.unit.runtime.sampling.drafts import WRONG, exact, ids_of, proposals_of, spec_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.sampler import SampledRow


DRAWS = 20_000
TARGET = torch.tensor([[1.0, -1.0, 0.5, 2.0, -0.5, 0.0, 1.5, -3.0]])
DRAFTS = {
    "poor": torch.tensor([[2.0, 0.5, -1.0, 1.0, 0.0, 0.0, -2.0, 1.0]]),
    "contrary": -TARGET,
    "clueless": torch.zeros(1, 8),
}

SETTINGS: list[dict[str, Any]] = [
    {"seed": 1},
    {"seed": 2, "temperature": 0.4},
    {"seed": 3, "temperature": 1.8},
    {"seed": 4, "top_p": 0.8},
    {"seed": 5, "temperature": 1.3, "top_p": 0.6},
    {"seed": 6, "top_k": 3},
    {"seed": 7, "min_p": 0.2},
    {"seed": 8, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.05, "logit_bias": ((1, 2.0), (3, -1.0))},
]


def _near(count: int, trials: int, chance: float) -> bool:
    return abs(count - trials * chance) <= 4 * math.sqrt(trials * chance * (1 - chance))


def _specs(params: SamplingParams) -> list[SampleSpec]:
    """Return how the token at each of so many positions is drawn."""
    return [spec_of(params, position) for position in range(DRAWS)]


def _proposed(draft: str, specs: Sequence[SampleSpec]) -> list[DraftToken]:
    return proposals_of(DRAFTS[draft].expand(DRAWS, -1), specs)


def _verify(drafts: Sequence[DraftToken], specs: Sequence[SampleSpec]) -> list[SampledRow]:
    return verify(TARGET.expand(DRAWS, -1), specs, drafts)


def _fit(drawn: Sequence[SampledRow], params: SamplingParams) -> tuple[float, float]:
    return chi_square(Counter(ids_of(drawn)), exact(TARGET, params))


@pytest.mark.parametrize(
    ("setting", "draft"),
    [*((setting, "poor") for setting in SETTINGS), (SETTINGS[0], "contrary"), (SETTINGS[7], "clueless")],
    ids=str,
)
def test_drafts_do_not_change_how_often_a_token_comes(setting: dict[str, Any], draft: str) -> None:
    params = SamplingParams(**setting, reproducible=False)
    specs = _specs(params)
    drawn = _verify(_proposed(draft, specs), specs)
    statistic, limit = _fit(drawn, params)
    assert statistic < limit
    overlap = sum(
        map(min, exact(TARGET, params), exact(DRAFTS[draft], params))
    )  # one less the total variation distance
    assert _near(sum(one.accepted for one in drawn), DRAWS, overlap)


@pytest.mark.parametrize(("setting", "looked_up"), [*((setting, 3) for setting in SETTINGS), (SETTINGS[0], 7)], ids=str)
def test_lookups_do_not_change_how_often_a_token_comes(setting: dict[str, Any], looked_up: int) -> None:
    params = SamplingParams(**setting, reproducible=False)
    drawn = _verify([DraftToken(looked_up)] * DRAWS, _specs(params))
    statistic, limit = _fit(drawn, params)
    assert statistic < limit
    assert _near(sum(one.accepted for one in drawn), DRAWS, exact(TARGET, params)[looked_up])


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[4]], ids=str)
def test_a_wrong_rule_does_not_pass(setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    params = SamplingParams(**setting, reproducible=False)
    specs = _specs(params)
    drafts = _proposed("poor", specs)
    passed = []
    for name, wrong in WRONG.items():
        with monkeypatch.context() as patch:
            patch.setattr(*wrong)
            statistic, limit = _fit(_verify(drafts, specs), params)
        if statistic < limit:
            passed.append(name)
    assert passed == []


def test_a_source_taken_as_it_is_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a filter leaves of a distribution sums to less than 1."""
    monkeypatch.setattr(acceptance, "normalised", lambda weights: weights)
    params = SamplingParams(seed=4, top_p=0.8, reproducible=False)
    specs = _specs(params)
    statistic, limit = _fit(_verify(_proposed("poor", specs), specs), params)
    assert statistic > limit
