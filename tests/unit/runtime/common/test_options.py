"""Ranges of numbers: what lies in them, and how they are said."""

from __future__ import annotations

import math

import pytest

from runtime.common.options import NOT_NEGATIVE, POSITIVE, Range, whole


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (whole(1, 16), [1, 16], [0, 17, 1.0, "1", True, None]),
        (whole(0), [0, 2**31 - 1], [-1, 2**31]),
        (Range(0, 1), [0, 0.5, 1, 1.0], [-0.1, 1.1, math.nan, False, "0"]),
        (POSITIVE, [0.001, math.inf], [0, -1, math.nan]),
        (NOT_NEGATIVE, [0, 0.0, 1e9], [-1e-9, math.nan]),
    ],
)
def test_what_lies_in_a_range(allowed: Range, inside: list[object], outside: list[object]) -> None:
    assert all(value in allowed for value in inside)
    assert not any(value in allowed for value in outside)


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        (whole(1, 16), "a whole number from 1 to 16"),
        (whole(0), "a whole number from 0 up"),
        (Range(0, 1), "a number from 0 to 1"),
        (Range(0, 1, above=True), "a number above 0 and at most 1"),
        (POSITIVE, "a number above 0"),
        (NOT_NEGATIVE, "a number from 0 up"),
    ],
)
def test_how_a_range_is_said(allowed: Range, said: str) -> None:
    assert str(allowed) == said
