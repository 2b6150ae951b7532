"""The sampler against references written for clarity: filters, penalties, log-probabilities; no row sees another."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from runtime.sampling.batch import FEW_RANKS
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from tests.models.chi_square import filtered
from tests.models.sampler_driver import adjust, distribution, sample
from tests.rows import every_row
from tests.unit.runtime.sampling.sampler_rows import FILTERS, VOCAB, random_logits, spec_of, token_of

GREEDY = SamplingParams(temperature=0)


# --- greedy -------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_likeliest() -> None:
    logits = random_logits(7)
    drawn = sample(logits, [spec_of(replace(GREEDY, top_k=5, top_p=0.3, min_p=0.1))] * 7)
    assert [d.token.token_id for d in drawn] == logits.argmax(-1).tolist()
    assert all(d.finite and d.token.logprobs is None for d in drawn)


@every_row("bad", [math.nan, math.inf, -math.inf])
@every_row("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_says_so(bad: float, temperature: float) -> None:
    logits = random_logits(3)
    logits[1, 17] = bad
    params = SamplingParams(temperature=temperature, top_p=0.9, seed=1)
    drawn = sample(logits, [spec_of(params)] * 3)
    assert [d.finite for d in drawn] == [True, False, True]
    assert all(0 <= d.token.token_id < VOCAB for d in drawn)


def test_logits_are_not_changed() -> None:
    logits = random_logits(1)
    before = logits.clone()
    params = SamplingParams(0.7, 5, 0.9, 0.1, 1.3, 0.5, 0.5, logit_bias=((1, 5.0),), min_tokens=9, seed=1, logprobs=3)
    sample(logits, [spec_of(params, output=(1, 1, 2))])
    assert torch.equal(logits, before)


# --- filters ------------------------------------------------------------------------------------------------------


@every_row("filters", [*FILTERS, {"top_k": FEW_RANKS}, {"top_k": FEW_RANKS + 1}])
@every_row("ties", [False, True])
@every_row("vocab", [VOCAB, 4 * FEW_RANKS])
def test_filters_are_those_of_the_reference(filters: dict[str, Any], ties: bool, vocab: int) -> None:
    params = SamplingParams(**filters)
    logits = random_logits(8, vocab=vocab, ties=ties)
    kept = distribution(logits, [params] * 8)
    kept /= kept.sum(-1, keepdim=True)
    for row, expected in zip(kept, logits.tolist(), strict=True):
        reference = torch.tensor(filtered(expected, params))
        assert torch.equal(row > 0, reference > 0)
        torch.testing.assert_close(row, reference, atol=1e-6, rtol=1e-4)


def test_equal_tokens_stand_or_fall_together() -> None:
    logits = torch.tensor([[2.0, 5.0, 5.0, 5.0, 1.0, 2.0]])
    for filters in (SamplingParams(top_k=1), SamplingParams(top_p=0.1), SamplingParams(min_p=1.0)):
        assert (distribution(logits, [filters])[0] > 0).tolist() == [False, True, True, True, False, False]


def test_a_top_k_may_be_larger_than_any_number_that_is_sent() -> None:
    whole = distribution(random_logits(1), [SamplingParams()])
    assert torch.equal(distribution(random_logits(1), [SamplingParams(top_k=10**400)]), whole)


@every_row("temperature", [1e-6, 1e-30, 1e-42, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    logits = random_logits(5)
    params = SamplingParams(temperature=temperature, seed=3)
    assert [d.token.token_id for d in sample(logits, [spec_of(params)] * 5)] == logits.argmax(-1).tolist()


def test_a_high_temperature_is_even() -> None:
    torch.testing.assert_close(
        distribution(random_logits(1), [SamplingParams(temperature=1e9)]), torch.full((1, VOCAB), 1 / VOCAB)
    )


# --- penalties, biases, bans --------------------------------------------------------------------------------------


def test_penalties_are_those_of_the_formulas() -> None:
    logits = random_logits(1)
    params = SamplingParams(repetition_penalty=1.3, presence_penalty=0.7, frequency_penalty=-0.4)
    prompt, output = [5, 6, 6, 8], [6, 9, 9, 9]
    adjusted = adjust(logits, [spec_of(params, prompt=prompt, output=output)])[0].tolist()
    for token, logit in enumerate(logits[0].tolist()):
        expected = logit
        if token in prompt + output:  # CTRL, equation in section 4.1
            expected = logit / 1.3 if logit > 0 else logit * 1.3
        expected -= output.count(token) * -0.4 + (token in output) * 0.7  # OpenAI's API reference
        assert adjusted[token] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "params",
    [replace(GREEDY, presence_penalty=2.0), replace(GREEDY, frequency_penalty=2.0)],
    ids=["presence", "frequency"],
)
def test_the_prompt_is_no_output(params: SamplingParams) -> None:
    logits = random_logits(1)
    assert torch.equal(adjust(logits, [spec_of(params, prompt=[1, 2, 3])]), logits)
    assert (adjust(logits, [spec_of(params, prompt=[1, 2], output=[3])]) != logits).nonzero().tolist() == [[0, 3]]


def test_a_repetition_penalty_before_any_token_changes_nothing() -> None:
    logits = random_logits(1)
    assert torch.equal(adjust(logits, [spec_of(replace(GREEDY, repetition_penalty=1.5))]), logits)


def test_a_bias_is_added() -> None:
    logits = random_logits(2)
    biased = adjust(logits, [spec_of(replace(GREEDY, logit_bias=((7, 2.5), (0, -100.0)))), spec_of(GREEDY)])
    expected = logits.clone()
    expected[0, 7] += 2.5
    expected[0, 0] -= 100
    assert torch.equal(biased, expected)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_end_tokens_are_banned_until_enough_is_generated(temperature: float) -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 3], logits[0, 4], logits[0, 5] = 60, 50, 40  # 3 and 4 end
    params = SamplingParams(temperature=temperature, min_tokens=2, seed=1)
    tokens = [token_of(logits, spec_of(params, 9 + count, output=[5] * count)) for count in range(4)]
    assert tokens == [5, 5, 3, 3]


# --- log-probabilities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_a_bad_word_s_last_token_does_not_follow_its_others(temperature: float) -> None:
    logits = torch.full((1, VOCAB), -20.0)
    logits[0, 7], logits[0, 8] = 30.0, 20.0
    params = SamplingParams(temperature=temperature, bad_words=((3, 4, 7),), seed=1)
    drawn = {
        name: token_of(logits, SampleSpec(params, 9, generated, context))
        for name, generated, context in [("whole", 2, [1, 3, 4]), ("prompt", 1, [1, 3, 4]), ("other", 2, [1, 4, 3])]
    }
    assert drawn == {"whole": 8, "prompt": 7, "other": 7}
    alone = SamplingParams(temperature=temperature, bad_words=((7,),), seed=1)
    assert token_of(logits, SampleSpec(alone, 9, 0)) == 8
    drafted = SampleSpec(params, 9, 1, [1, 3]).after([4])
    assert token_of(logits, drafted) == 8


def test_logprobs_are_of_the_model_s_own_distribution() -> None:
    logits = random_logits(1)
    raw = logits[0].double().log_softmax(-1)
    params = SamplingParams(2.0, 3, 0.5, 0.2, 1.5, 1.0, 1.0, ((9, 100.0),), min_tokens=5, seed=4, logprobs=6)
    token = sample(logits, [spec_of(params, prompt=[1, 2], output=[9, 9])])[0].token
    assert token.token_id == 9
    assert token.logprobs is not None
    assert token.logprobs.logprob == pytest.approx(raw[9].item(), abs=1e-5)
    best = raw.topk(6)
    assert [token_id for token_id, _ in token.logprobs.top] == best.indices.tolist()
    assert [logprob for _, logprob in token.logprobs.top] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_logprobs_are_given_where_they_are_wanted() -> None:
    wanted = [None, 0, 2, 5, VOCAB, None, 100]
    drawn = sample(random_logits(len(wanted)), [spec_of(replace(GREEDY, logprobs=count)) for count in wanted])
    found = [d.token.logprobs and len(d.token.logprobs.top) for d in drawn]
    assert found == [None, 0, 2, 5, VOCAB, None, VOCAB]


# --- neighbours ---------------------------------------------------------------------------------------------------


def _mixture() -> list[SampleSpec]:
    """Requests that ask for everything there is, and for nothing."""
    features: list[SamplingParams] = [
        GREEDY,
        SamplingParams(),
        SamplingParams(logprobs=3),
        SamplingParams(temperature=0.5, logprobs=20),
        SamplingParams(top_k=3),
        SamplingParams(top_k=FEW_RANKS + 1, top_p=0.9),
        SamplingParams(top_p=0.5, logprobs=1),
        SamplingParams(min_p=0.2),
        SamplingParams(repetition_penalty=1.4),
        SamplingParams(temperature=0, presence_penalty=1.0, frequency_penalty=0.5, logprobs=0),
        SamplingParams(logit_bias=((2, 3.0),)),
        SamplingParams(temperature=1.5, min_tokens=100),
    ]
    return [
        spec_of(replace(params, seed=i), 10 + i, prompt=[i, 1, 2], output=[5] * i) for i, params in enumerate(features)
    ]


@every_row("vocab", [VOCAB, 5000])
@every_row("ties", [False, True])
def test_a_row_does_not_depend_on_its_neighbours(vocab: int, ties: bool) -> None:
    specs = _mixture()
    logits = random_logits(len(specs), vocab=vocab, ties=ties)
    alone = [sample(logits[i : i + 1], [spec])[0] for i, spec in enumerate(specs)]
    for order in (range(len(specs)), range(len(specs))[::-1], (3, 1, 4, 5, 9, 2, 6), (1, 6), (1, 1, 4)):
        assert sample(logits[list(order)], [specs[i] for i in order]) == [alone[i] for i in order]


def test_a_neighbour_s_filter_does_not_cut_the_tail() -> None:
    """Of 5000 tokens most have less than a float32 sum of probabilities can show."""
    logits = 2 * random_logits(1, vocab=5000)
    whole = SamplingParams()
    alone = distribution(logits, [whole])
    beside = distribution(logits.expand(3, -1), [SamplingParams(top_k=9), whole, SamplingParams(top_p=0.5)])
    assert torch.equal(beside[1:2], alone)


def test_a_broken_neighbour_changes_nothing() -> None:
    specs = _mixture()
    logits = random_logits(len(specs))
    sound = sample(logits, specs)
    logits[4] = math.nan
    broken = sample(logits, specs)
    assert [d for i, d in enumerate(broken) if i != 4] == [d for i, d in enumerate(sound) if i != 4]
