"""Costs of steps, learnt from machines whose costs are known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.scheduling.costs import MAX_SURPRISE, StepCostModel


def measured(steps: list[tuple[int, float]]) -> StepCostModel:
    """A model that has seen steps without prompts: (rows, seconds)."""
    costs = StepCostModel()
    for rows, seconds in steps:
        costs.observe(rows, 0, 0, seconds)
    return costs


def at(costs: StepCostModel, rows: int, chunk: int = 0, depth: float = 0) -> float:
    """Return what it foresees, which must be something."""
    seconds = costs.seconds(rows, chunk, depth)
    assert seconds is not None
    return seconds


# --- rows of sequences that generate --------------------------------------------------------------------------------


def test_a_line_is_found() -> None:
    costs = measured([(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 1, 2, 8, 1, 5) * 20])
    for rows in (1, 3, 20):
        assert at(costs, rows) == pytest.approx(0.01 + 0.002 * rows, rel=1e-3)


def test_nothing_is_known_at_first() -> None:
    costs = StepCostModel()
    assert costs.seconds(1) is None
    assert costs.seconds(0, chunk=100) is None
    assert not costs.knows_chunks


def test_the_first_step_of_a_size_says_nothing() -> None:
    """It may take ten times as long, and there might be none after it that could correct the picture."""
    costs = StepCostModel()
    for rows in (1, 4):
        costs.observe(rows, 0, 0, 1.0)
        assert costs.seconds(rows) in (None, 0.1)
        costs.observe(rows, 0, 0, 0.1)
        assert costs.seconds(rows) == 0.1


def test_of_steps_with_the_same_rows_more_rows_cost_no_more() -> None:
    costs = measured([(3, 0.01), (3, 0.02)] * 100)
    assert at(costs, 1) == at(costs, 3) == at(costs, 50) == pytest.approx(0.015, rel=0.05)


def test_what_a_row_costs_is_remembered_for_as_long_as_it_takes() -> None:
    numbers = random.Random(3)
    learnt = [(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 2, 5)] * 5
    costs = measured([*learnt, *((1, 0.012 * numbers.uniform(0.8, 1.2)) for _ in range(5000))])
    assert at(costs, 5) - at(costs, 1) == pytest.approx(0.008, rel=0.5)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_follows_a_machine_that_changes_its_speed(factor: float) -> None:
    steps = [(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 2, 5)] * 100
    costs = measured(steps + [(rows, factor * seconds) for rows, seconds in steps])
    for rows in (1, 5):
        assert at(costs, rows) == pytest.approx(factor * (0.01 + 0.002 * rows), rel=0.1)


def test_one_late_step_does_not_say_much() -> None:
    costs = measured([(1, 0.01)] * 100 + [(1, 60.0)])
    assert at(costs, 1) < 0.0105


# --- rows of prompts ------------------------------------------------------------------------------------------------


def read(costs: StepCostModel, times: int, depth: float = 0, row: float = 0.001) -> None:
    """Steps of 10 ms and, for each of a hundred rows of a prompt, so much more."""
    for _ in range(times):
        costs.observe(0, 100, depth, 0.01 + 100 * row)


def test_a_chunk_costs_the_step_and_so_much_a_row() -> None:
    costs = measured([(1, 0.01)] * 5)
    read(costs, 5)
    assert at(costs, 1, chunk=200) == pytest.approx(0.21)
    assert costs.chunk_row_seconds(0) == pytest.approx(0.001)


def test_until_one_was_seen_rows_of_prompts_cost_as_others_do() -> None:
    costs = measured([(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 1, 2, 8, 1, 5) * 20])
    assert not costs.knows_chunks
    assert at(costs, 1, chunk=20) == at(costs, 21)


def test_deep_rows_cost_more() -> None:
    costs = measured([(1, 0.01)] * 5)
    for depth in range(0, 4000, 200):
        read(costs, 1, depth=depth, row=0.001 * (1 + depth / 2000))
    assert costs.chunk_row_seconds(6000) == pytest.approx(0.004, rel=0.1)


def test_the_last_rows_of_prompts_do_not_say_what_depth_costs() -> None:
    """To a single row all is ascribed that its step takes besides: a prompt's first chunk would be thought cheap."""
    costs = measured([(1, 0.005)] * 5)
    for _ in range(20):
        for depth in range(0, 2048, 256):
            costs.observe(0, 256, depth, 0.005 + 256 * 0.001)
        costs.observe(0, 1, 2048, 0.05)
    assert costs.chunk_row_seconds(0) == pytest.approx(0.001, rel=0.1)
    assert costs.chunk_row_seconds(2048) == pytest.approx(0.001, rel=0.1)


def test_a_chunk_of_few_rows_says_little_of_how_fast_the_machine_is() -> None:
    costs = measured([(1, 0.01)] * 5)
    read(costs, 20)
    costs.observe(0, 4, 0, 0.01 + 4 * 0.004)
    assert costs.chunk_row_seconds(0) == pytest.approx(0.001, rel=0.1)
    for _ in range(100):  # but many of them say it
        costs.observe(0, 4, 0, 0.01 + 4 * 0.002)
    assert costs.chunk_row_seconds(0) == pytest.approx(0.002, rel=0.1)


def test_one_late_chunk_does_not_say_much() -> None:
    """Else a drafter that was late once would be thought too slow to catch up, and never be asked again."""
    costs = measured([(1, 0.4)] * 5)
    for _ in range(3):
        costs.observe(0, 40, 0, 0.4 + 40 * 0.003)
    before = costs.chunk_row_seconds(0)
    costs.observe(0, 40, 0, 60.0)
    assert costs.chunk_row_seconds(0) <= (MAX_SURPRISE * 0.52 - 0.4) / 40
    for _ in range(8):
        costs.observe(0, 40, 0, 0.4 + 40 * 0.003)
    assert costs.chunk_row_seconds(0) == pytest.approx(before, rel=0.2)


# --- whatever happens -----------------------------------------------------------------------------------------------

steps = st.tuples(
    st.integers(0, 4096), st.integers(0, 4096), st.floats(0, 100_000), st.floats(0, 1e3, allow_subnormal=False)
)


@given(st.lists(steps, max_size=40), st.integers(0, 4096), st.integers(0, 4096), st.floats(0, 100_000))
@settings(deadline=None)
def test_never_negative_and_never_infinite(
    seen: list[tuple[int, int, float, float]], rows: int, chunk: int, depth: float
) -> None:
    costs = StepCostModel()
    for a, b, c, seconds in seen:
        costs.observe(a or (0 if b else 1), b, c, seconds)
        found = costs.seconds(rows + 1, chunk, depth)
        assert found is None or (found >= 0 and math.isfinite(found))
