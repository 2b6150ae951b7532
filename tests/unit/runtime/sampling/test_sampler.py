"""The sampler against references written for clarity, and against statistics that a wrong one fails."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.sampling import draws, sampler
from runtime.sampling import params as sampling
from runtime.sampling.params import DRAFT, OWN, VERDICT, SamplingParams, splitmix64, uniform
from runtime.sampling.tokens import SampleSpec
from tests.models.drawing import adjust, distribution, sample
from tests.models.goodness import chi_square, filtered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VOCAB = 50
GREEDY = SamplingParams(temperature=0)
NEARLY_ONE, NEARLY_ZERO = (2**22 - 0.5) / 2**22, 0.5 / 2**22  # the extremes of `uniform`


def _logits(rows: int, *, vocab: int = VOCAB, seed: int = 0, ties: bool = False) -> torch.Tensor:
    logits = 3 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))
    return logits.round() if ties else logits


def _spec(
    params: SamplingParams, position: int = 0, *, output: Sequence[int] = (), prompt: Sequence[int] = ()
) -> SampleSpec:
    return SampleSpec(params, position, len(output), (*prompt, *output), end_ids=(3, 4))


def _token(logits: torch.Tensor, spec: SampleSpec) -> int:
    return sample(logits, [spec])[0].token.token_id


# --- greedy -------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_likeliest() -> None:
    logits = _logits(7)
    drawn = sample(logits, [_spec(replace(GREEDY, top_k=5, top_p=0.3, min_p=0.1))] * 7)
    assert [d.token.token_id for d in drawn] == logits.argmax(-1).tolist()
    assert all(d.finite and d.token.logprobs is None for d in drawn)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_says_so(bad: float, temperature: float) -> None:
    logits = _logits(3)
    logits[1, 17] = bad
    params = SamplingParams(temperature=temperature, top_p=0.9, seed=1)
    drawn = sample(logits, [_spec(params)] * 3)
    assert [d.finite for d in drawn] == [True, False, True]
    assert all(0 <= d.token.token_id < VOCAB for d in drawn)


def test_logits_are_not_changed() -> None:
    logits = _logits(1)
    before = logits.clone()
    params = SamplingParams(0.7, 5, 0.9, 0.1, 1.3, 0.5, 0.5, logit_bias=((1, 5.0),), min_tokens=9, seed=1, logprobs=3)
    sample(logits, [_spec(params, output=(1, 1, 2))])
    assert torch.equal(logits, before)


# --- filters ------------------------------------------------------------------------------------------------------


FILTERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 1.9},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": VOCAB},
    {"top_k": 10 * VOCAB},
    {"top_p": 0.0},
    {"top_p": 1e-9},
    {"top_p": 0.3},
    {"top_p": 0.9},
    {"top_p": 0.999},
    {"min_p": 1.0},
    {"min_p": 0.05},
    {"min_p": 1e-9},
    {"top_k": 8, "top_p": 0.7},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.2},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.01},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_filters_are_those_of_the_reference(filters: dict[str, Any], ties: bool) -> None:
    params = SamplingParams(**filters)
    logits = _logits(8, ties=ties)
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
    whole = distribution(_logits(1), [SamplingParams()])
    assert torch.equal(distribution(_logits(1), [SamplingParams(top_k=10**400)]), whole)


@pytest.mark.parametrize("temperature", [1e-6, 1e-30, 1e-42, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    logits = _logits(5)
    params = SamplingParams(temperature=temperature, seed=3)
    assert [d.token.token_id for d in sample(logits, [_spec(params)] * 5)] == logits.argmax(-1).tolist()


def test_a_high_temperature_is_even() -> None:
    torch.testing.assert_close(
        distribution(_logits(1), [SamplingParams(temperature=1e9)]), torch.full((1, VOCAB), 1 / VOCAB)
    )


# --- penalties, biases, bans --------------------------------------------------------------------------------------


def test_penalties_are_those_of_the_formulas() -> None:
    logits = _logits(1)
    params = SamplingParams(repetition_penalty=1.3, presence_penalty=0.7, frequency_penalty=-0.4)
    prompt, output = [5, 6, 6, 8], [6, 9, 9, 9]
    adjusted = adjust(logits, [_spec(params, prompt=prompt, output=output)])[0].tolist()
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
    logits = _logits(1)
    assert torch.equal(adjust(logits, [_spec(params, prompt=[1, 2, 3])]), logits)
    assert (adjust(logits, [_spec(params, prompt=[1, 2], output=[3])]) != logits).nonzero().tolist() == [[0, 3]]


def test_a_repetition_penalty_before_any_token_changes_nothing() -> None:
    logits = _logits(1)
    assert torch.equal(adjust(logits, [_spec(replace(GREEDY, repetition_penalty=1.5))]), logits)


def test_a_bias_is_added() -> None:
    logits = _logits(2)
    biased = adjust(logits, [_spec(replace(GREEDY, logit_bias=((7, 2.5), (0, -100.0)))), _spec(GREEDY)])
    expected = logits.clone()
    expected[0, 7] += 2.5
    expected[0, 0] -= 100
    assert torch.equal(biased, expected)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_end_tokens_are_banned_until_enough_is_generated(temperature: float) -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 3], logits[0, 4], logits[0, 5] = 60, 50, 40  # 3 and 4 end
    params = SamplingParams(temperature=temperature, min_tokens=2, seed=1)
    tokens = [_token(logits, _spec(params, 9 + count, output=[5] * count)) for count in range(4)]
    assert tokens == [5, 5, 3, 3]


# --- log-probabilities --------------------------------------------------------------------------------------------


def test_logprobs_are_of_the_model_s_own_distribution() -> None:
    logits = _logits(1)
    raw = logits[0].double().log_softmax(-1)
    params = SamplingParams(2.0, 3, 0.5, 0.2, 1.5, 1.0, 1.0, ((9, 100.0),), min_tokens=5, seed=4, logprobs=6)
    token = sample(logits, [_spec(params, prompt=[1, 2], output=[9, 9])])[0].token
    assert token.token_id == 9
    assert token.logprobs is not None
    assert token.logprobs.logprob == pytest.approx(raw[9].item(), abs=1e-5)
    best = raw.topk(6)
    assert [token_id for token_id, _ in token.logprobs.top] == best.indices.tolist()
    assert [logprob for _, logprob in token.logprobs.top] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_logprobs_are_given_where_they_are_wanted() -> None:
    wanted = [None, 0, 2, 5, VOCAB, None, 100]
    drawn = sample(_logits(len(wanted)), [_spec(replace(GREEDY, logprobs=count)) for count in wanted])
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
        SamplingParams(top_p=0.5, logprobs=1),
        SamplingParams(min_p=0.2),
        SamplingParams(repetition_penalty=1.4),
        SamplingParams(temperature=0, presence_penalty=1.0, frequency_penalty=0.5, logprobs=0),
        SamplingParams(logit_bias=((2, 3.0),)),
        SamplingParams(temperature=1.5, min_tokens=100),
    ]
    return [
        _spec(replace(params, seed=i), 10 + i, prompt=[i, 1, 2], output=[5] * i) for i, params in enumerate(features)
    ]


@pytest.mark.parametrize("vocab", [VOCAB, 5000])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_a_row_does_not_depend_on_its_neighbours(vocab: int, ties: bool) -> None:
    specs = _mixture()
    logits = _logits(len(specs), vocab=vocab, ties=ties)
    alone = [sample(logits[i : i + 1], [spec])[0] for i, spec in enumerate(specs)]
    for order in (range(len(specs)), range(len(specs))[::-1], (3, 1, 4, 5, 9, 2, 6), (1, 6), (1, 1, 4)):
        assert sample(logits[list(order)], [specs[i] for i in order]) == [alone[i] for i in order]


def test_a_neighbour_s_filter_does_not_cut_the_tail() -> None:
    """Of 5000 tokens most have less than a float32 sum of probabilities can show."""
    logits = 2 * _logits(1, vocab=5000)
    whole = SamplingParams()
    alone = distribution(logits, [whole])
    beside = distribution(logits.expand(3, -1), [SamplingParams(top_k=9), whole, SamplingParams(top_p=0.5)])
    assert torch.equal(beside[1:2], alone)


def test_a_broken_neighbour_changes_nothing() -> None:
    specs = _mixture()
    logits = _logits(len(specs))
    sound = sample(logits, specs)
    logits[4] = math.nan
    broken = sample(logits, specs)
    assert [d for i, d in enumerate(broken) if i != 4] == [d for i, d in enumerate(sound) if i != 4]


# --- randomness ---------------------------------------------------------------------------------------------------


def test_splitmix64_is_the_published_one() -> None:
    """The first outputs for the state 1234567 (the test vector of Rosetta Code)."""
    step = 0x9E3779B97F4A7C15
    outputs = [splitmix64((1234567 + i * step) & ((1 << 64) - 1)) for i in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_seed_and_position_determine_the_token() -> None:
    logits = torch.zeros(1, 1000)
    tokens = [[_token(logits, _spec(SamplingParams(seed=seed), at)) for at in range(40)] for seed in (1, 1, 2, -1)]
    assert tokens[0] == tokens[1]
    for other in tokens[2:]:
        assert sum(a == b for a, b in zip(tokens[0], other, strict=True)) < 4
    assert len(set(tokens[0])) > 30


def _fits(counts: Counter[int]) -> bool:
    """Whether a hundred equally likely things came equally often."""
    statistic, limit = chi_square(counts, [1 / 100] * 100)
    return statistic < limit


@pytest.mark.parametrize("stream", [OWN, DRAFT, VERDICT])
@pytest.mark.parametrize("seed", [0, 1, -1, 2**63, 2**64 + 5, 12345678901234567890])
def test_uniform_numbers_are_spread(seed: int, stream: int) -> None:
    numbers = [uniform(seed, position, stream) for position in range(20_000)]
    assert all(0 < number < 1 for number in numbers)
    assert _fits(Counter(int(100 * number) for number in numbers))
    pairs = Counter(int(10 * a) * 10 + int(10 * b) for a, b in zip(numbers[::2], numbers[1::2], strict=True))
    assert _fits(pairs)


def test_seeds_next_to_each_other_are_unrelated() -> None:
    numbers = [uniform(seed, 7) for seed in range(20_000)]
    assert _fits(Counter(int(100 * number) for number in numbers))


@pytest.mark.parametrize(("one", "other"), [(OWN, DRAFT), (DRAFT, VERDICT), (VERDICT, OWN)])
@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_streams_are_unrelated(one: int, other: int, shift: int) -> None:
    numbers = ((uniform(9, position, one), uniform(9, position + shift, other)) for position in range(1, 20_001))
    assert _fits(Counter(int(10 * a) * 10 + int(10 * b) for a, b in numbers))


def test_the_numbers_of_plain_decoding_stay_what_they_were() -> None:
    """A seed is a promise."""
    assert [uniform(7, 0), uniform(7, 1), uniform(-1, 10**6)] == [
        0.7215081453323364,
        0.23928439617156982,
        0.7229639291763306,
    ]


def test_choices_of_one_request_differ() -> None:
    params = SamplingParams(seed=5)
    assert params.for_choice(0) == params
    assert len({params.for_choice(i).seed for i in range(50)}) == 50
    assert SamplingParams().for_choice(3).seed is None


# --- goodness of fit ----------------------------------------------------------------------------------------------

DRAWS = 20_000
SMALL = torch.tensor([[1.0, -1.0, 0.5, 2.0, -0.5, 0.0, 1.5, -3.0]])


def _fit(params: SamplingParams) -> tuple[float, float]:
    """Chi-square of the draws at so many positions, and its limit."""
    drawn = sample(SMALL.expand(DRAWS, -1), [_spec(params, position) for position in range(DRAWS)])
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
    monkeypatch.setattr(draws, "uniform", lambda *key: number)
    for total in range(1, 8):  # how many may be drawn: all sums of probabilities that rounding can make of them
        for first in (0, 1, vocab - total):
            logits = torch.full((1, vocab), -math.inf)
            logits[0, first : first + total] = torch.linspace(0, 1.7, total)
            assert first <= _token(logits, _spec(SamplingParams(seed=1))) < first + total


def test_the_extreme_numbers_reach_the_extreme_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.zeros(1, VOCAB)
    for number, token in ((NEARLY_ZERO, 0), (NEARLY_ONE, VOCAB - 1)):
        monkeypatch.setattr(draws, "uniform", lambda *key, number=number: number)
        assert _token(logits, _spec(SamplingParams(seed=1))) == token


def test_a_number_on_a_border_takes_the_next_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "uniform", lambda *key: 0.5)
    assert _token(torch.tensor([[1.0, -math.inf, 1.0]]), _spec(SamplingParams(seed=1))) == 2


def test_uniform_is_bounded_by_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, number in ((0, NEARLY_ZERO), ((1 << 64) - 1, NEARLY_ONE)):
        monkeypatch.setattr(sampling, "splitmix64", lambda value, state=state: state)
        assert uniform(1, 1) == number
    assert torch.tensor(NEARLY_ONE).item() == NEARLY_ONE < 1  # in float32 too


def test_a_real_vocabulary() -> None:
    vocab = 151_936
    logits = _logits(2, vocab=vocab)
    params = SamplingParams(temperature=0.7, top_k=20, top_p=0.9, seed=1, logprobs=20)
    drawn = sample(logits, [_spec(params), _spec(SamplingParams(temperature=2.0, seed=1))])
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
    logits = _logits(200)
    kept = logits >= logits.topk(top_k).values[:, -1:]
    for position in range(5):
        specs = [_spec(SamplingParams(temperature=1.5, top_k=top_k, seed=row), position) for row in range(200)]
        tokens = [drawn.token.token_id for drawn in sample(logits, specs)]
        assert kept[torch.arange(200), torch.tensor(tokens)].all()


@pytest.mark.usefixtures("shaky_sums")
def test_a_sum_that_is_too_small_does_not_keep_all_that_lies_before_it() -> None:
    """Of a thousand tokens that are about as likely, half have half of the mass; some sums are a tenth too small."""
    logits = torch.linspace(0, -0.01, 1000)[None]
    kept = distribution(logits, [SamplingParams(temperature=1.0, top_p=0.5, seed=1)]) > 0
    assert 450 < kept.sum() < 550
