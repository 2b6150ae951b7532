"""Repetition in a text is found where it begins, and nowhere else."""

from __future__ import annotations

import itertools
import random

import pytest
from tokenizers import Tokenizer, models

from bench.training.loops import LOOP, distinct, find_loop, judge, repeated, row

WORDS = {"<|endoftext|>": 0, "<|end|>": 1, "\n": 2} | {f"w{i} ": i for i in range(3, 200)}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(models.WordLevel(WORDS, unk_token="<|end|>"))


def some_tokens(count: int) -> list[int]:
    return random.Random(1).sample(range(3, 200), count)


@pytest.mark.parametrize("period", [1, 7, 40])
def test_a_loop_begins_where_its_second_turn_does(period: int) -> None:
    lead, turn = some_tokens(5), some_tokens(60)[20 : 20 + period]
    text = lead + list(itertools.islice(itertools.cycle(turn), period + max(LOOP, period)))
    assert find_loop(text) == len(lead) + period
    assert find_loop(text[:-1]) is None


def test_a_passage_that_comes_back_with_others_between_is_no_loop() -> None:
    tokens = some_tokens(100)
    text = tokens[:40] + tokens[50:90] + tokens[:39]
    assert find_loop(text) is None
    assert [i for i, mark in enumerate(repeated(text, 39)) if mark] == list(range(80, 119))
    assert not any(repeated(text, 40))


def test_what_is_too_short_for_a_passage_is_not_repeated() -> None:
    assert repeated([], 4) == []
    assert repeated([7, 7, 7], 4) == [False] * 3
    assert repeated([7, 7, 7, 7, 7], 4) == [False, True, True, True, True]


def test_different_ngrams_are_counted_once() -> None:
    assert distinct([1, 2, 3, 4, 5, 6]) == 1.0
    assert distinct([1] * 13) == pytest.approx(0.1)
    assert distinct([1, 2]) == 1.0


def test_a_text_is_judged_by_its_line_and_its_end(tokenizer: Tokenizer) -> None:
    first, second, *rest = some_tokens(20)
    looping = judge([first, 2, *[second, 2] * 20], tokenizer)
    assert (looping.loop, looping.loop_line, looping.ended) == (3, 3, False)
    whole = judge([first, 2, *rest, 1], tokenizer)
    assert (whole.loop, whole.loop_line, whole.ended, whole.distinct) == (None, None, True, 1.0)
    assert row("both", [looping, whole]).startswith(
        "| both | 2 | 1 (50%) | 1 (50%) | 1 (50%) | 3, 3, 3 | 1 (50%) | 0.5"
    )
