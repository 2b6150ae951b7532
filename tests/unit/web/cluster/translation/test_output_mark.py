"""The mark of an output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.cluster.translation.output_mark import is_marked, mark, without_mark

SIZE = 50
tokens = st.lists(st.integers(0, SIZE - 1))


@given(prompt=tokens, output=tokens)
def test_an_output_is_found_behind_any_prompt(prompt: list[int], output: list[int]) -> None:
    sent = [mark(output[0], SIZE), *output[1:]] if output else []
    assert without_mark([*prompt, *sent], SIZE) == ([*prompt, *output], len(output))


def test_a_second_mark_is_none() -> None:
    plain, _ = without_mark([1, 51, 52], SIZE)
    assert plain == [1, 1, 52]  # refused, as is every number that is no token's


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (None, False),
        ({"presence_penalty": 0.0, "frequency_penalty": None}, False),
        ({"presence_penalty": -0.1, "n": None}, True),
        ({"frequency_penalty": 1.0, "n": 1}, True),
        ({"frequency_penalty": 1.0, "n": 2}, False),
    ],
)
def test_what_counts_the_output_of_one_choice_is_marked(sampling: dict[str, float] | None, expected: bool) -> None:
    assert is_marked({"sampling_options": sampling}) is expected
