"""Prompt lookup against a search through the whole sequence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.text.lookup import MAX_NGRAM, MIN_NGRAM, PromptLookup

texts = st.lists(st.integers(0, 3), max_size=60)


def looked_up(tokens: list[int], most: int) -> list[int]:
    """The same, without an index."""
    for n in range(MAX_NGRAM, MIN_NGRAM - 1, -1):
        if len(tokens) < n:
            continue
        suffix = tokens[-n:]
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == suffix:
                copied = list(tokens)
                for i in range(most):
                    copied.append(copied[start + n + i])
                return copied[len(tokens) :]
    return []


def read(*pieces: list[int]) -> PromptLookup:
    lookup = PromptLookup()
    for piece in pieces:
        lookup.extend(piece)
    return lookup


@given(texts, texts, st.integers(0, 12))
def test_an_index_finds_what_a_search_finds(first: list[int], second: list[int], most: int) -> None:
    lookup = read(first, second)
    assert lookup.propose(most) == looked_up(first + second, most)
    assert len(lookup) == len(first) + len(second)


@given(texts)
def test_proposing_changes_nothing(tokens: list[int]) -> None:
    lookup = read(tokens)
    assert lookup.propose(5) == lookup.propose(5)
    lookup.extend([1])
    assert lookup.propose(5) == looked_up([*tokens, 1], 5)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], []),
        ([7], []),
        ([7, 7], []),
        ([7, 7, 7], [7, 7, 7]),
        ([1, 2, 3, 4, 1, 2], [3, 4, 1]),
        ([1, 2, 3, 9, 2, 3, 5, 1, 2, 3], [9, 2, 3]),  # the longer match, though the other is newer
        ([1, 2, 3, 1, 2, 4, 1, 2], [4, 1, 2]),  # of two alike, the newer
        ([5, 6, 5, 6], [5, 6, 5]),  # a loop
    ],
)
def test_examples(tokens: list[int], expected: list[int]) -> None:
    assert read(tokens).propose(3) == expected
