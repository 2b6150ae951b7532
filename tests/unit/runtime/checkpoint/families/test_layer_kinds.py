"""Kinds of layers: which have a window, and which rotate."""

from __future__ import annotations

import pytest

from runtime.checkpoint.families.layer_kinds import FULL, SLIDING, full_at_intervals, sliding_rotate
from runtime.errors import CheckpointError

WINDOW = {"use_sliding_window": True, "sliding_window": 16}


def test_every_nth_layer_is_without_a_window() -> None:
    by_three = full_at_intervals({**WINDOW, "sliding_window_pattern": 3}, 7)
    assert by_three == [SLIDING, SLIDING, FULL, SLIDING, SLIDING, FULL, SLIDING]
    assert full_at_intervals({**WINDOW, "sliding_window_pattern": 1}, 2) == [FULL, FULL]


def test_no_window_no_intervals() -> None:
    assert full_at_intervals({**WINDOW, "sliding_window": None, "sliding_window_pattern": 3}, 4) == [FULL] * 4


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(CheckpointError, match="sliding_window_pattern 0"):
        full_at_intervals({**WINDOW, "sliding_window_pattern": 0}, 4)


def test_the_layers_with_a_window_rotate() -> None:
    assert sliding_rotate({}, [FULL, SLIDING, SLIDING]) == (False, True, True)
