"""A seed and a position determine the token; the numbers behind it are spread and unrelated."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from runtime.sampling.params import SamplingParams
from runtime.sampling.random_numbers import DRAFT_STREAM, REJECTION_STREAM, TOKEN_STREAM, splitmix64, uniform
from tests.models.chi_square import chi_square
from tests.unit.runtime.sampling.sampler_rows import spec_of, token_of


def test_splitmix64_is_the_published_one() -> None:
    """The first outputs for the state 1234567 (the test vector of Rosetta Code)."""
    step = 0x9E3779B97F4A7C15
    outputs = [splitmix64((1234567 + i * step) & ((1 << 64) - 1)) for i in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_seed_and_position_determine_the_token() -> None:
    logits = torch.zeros(1, 1000)
    tokens = [[token_of(logits, spec_of(SamplingParams(seed=seed), at)) for at in range(40)] for seed in (1, 1, 2, -1)]
    assert tokens[0] == tokens[1]
    for other in tokens[2:]:
        assert sum(a == b for a, b in zip(tokens[0], other, strict=True)) < 4
    assert len(set(tokens[0])) > 30


def _fits(counts: Counter[int]) -> bool:
    """Return whether a hundred equally likely things came equally often."""
    statistic, limit = chi_square(counts, [1 / 100] * 100)
    return statistic < limit


@pytest.mark.parametrize("stream", [TOKEN_STREAM, DRAFT_STREAM, REJECTION_STREAM])
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TOKEN_STREAM, DRAFT_STREAM),
        (DRAFT_STREAM, REJECTION_STREAM),
        (REJECTION_STREAM, TOKEN_STREAM),
    ],
)
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
