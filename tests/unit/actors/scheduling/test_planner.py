"""The planner: which rows of whose prompts make a step, and how long a step may take."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.scheduling.costs import StepCostModel
from actors.scheduling.planner import (
    ALONE,
    FIRST_CHUNK,
    MAX_CHUNK,
    MIN_CHUNK,
    ChunkLimits,
    share_budget,
    share_by_priority,
)

wishes = st.lists(st.integers(1, 5000), max_size=12)


@given(wishes, st.integers(0, 10_000))
@settings(deadline=None)
def test_shares_never_exceed_the_budget_or_the_wish(wanted: list[int], budget: int) -> None:
    shares = share_budget(wanted, budget)
    assert len(shares) == len(wanted)
    assert sum(shares) <= budget
    assert all(0 <= share <= wish for share, wish in zip(shares, wanted, strict=True))


@given(wishes, st.integers(0, 10_000))
@settings(deadline=None)
def test_nothing_is_left_over_while_anybody_wants_more(wanted: list[int], budget: int) -> None:
    assert sum(share_budget(wanted, budget)) == min(budget, sum(wanted))


@given(wishes.filter(bool), st.integers(1, 10_000))
@settings(deadline=None)
def test_the_oldest_gets_half(wanted: list[int], budget: int) -> None:
    """So nobody starves: everybody is the oldest one day."""
    assert share_budget(wanted, budget)[0] >= min(wanted[0], budget / 2)


@given(wishes.filter(bool), st.integers(1, 10_000))
@settings(deadline=None)
def test_the_rest_ends_as_many_prompts_as_it_can(wanted: list[int], budget: int) -> None:
    oldest, *shares = share_budget(wanted, budget)
    left = (budget - oldest) if oldest < wanted[0] else budget - wanted[0]
    ended = sum(share == wish for share, wish in zip(shares, wanted[1:], strict=True))
    fitting = 0
    for wish in sorted(wanted[1:]):
        left -= wish
        fitting += left >= 0
    assert ended >= fitting


def test_a_short_prompt_is_not_kept_waiting() -> None:
    assert share_budget([5000, 4000, 20], 64) == [32, 12, 20]


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(1, 500)), max_size=12), st.integers(0, 2000))
@settings(deadline=None)
def test_a_worse_priority_gets_what_the_better_ones_leave(wanted: list[tuple[int, int]], budget: int) -> None:
    shares = share_by_priority(wanted, budget)
    for priority in range(-2, 3):
        of_class = [rows for number, rows in wanted if number == priority]
        got = [share for (number, _), share in zip(wanted, shares, strict=True) if number == priority]
        assert got == share_budget(of_class, budget)
        budget -= sum(got)


def test_no_prompts() -> None:
    assert share_budget([], 100) == []


class LinearMachine:
    """Steps that cost a base, and so much for each row; a prompt's rows more behind others: twice behind `doubling`."""

    def __init__(self, base: float, decode_row: float, prefill_row: float, doubling: float = math.inf) -> None:
        self.base, self.decode_row, self.prefill_row, self.doubling = base, decode_row, prefill_row, doubling

    def seconds(self, decode_rows: int, prefill_rows: int, depth: float = 0) -> float:
        """Return how long a step takes."""
        prefill_row = self.prefill_row * (1 + depth / self.doubling)
        return self.base + decode_rows * self.decode_row + prefill_rows * prefill_row

    def run(self, costs: StepCostModel, decode_rows: int, steps: int = 12) -> float:
        """Steps with as many prompt rows as fit the limits, at no depth; the duration of the last."""
        seconds = 0.0
        for _ in range(steps):
            rows = LIMITS.budget(costs, decode_rows, 0)
            seconds = self.seconds(decode_rows, rows)
            costs.observe(decode_rows, rows, 0, seconds)
        return seconds

    def read(self, costs: StepCostModel, decode_rows: int, prompt: int, cached: int = 0) -> list[float]:
        """The durations of the steps that read a prompt, of which so many tokens are there; but not of the last."""
        durations, depth = [], cached
        while depth < prompt:
            rows = min(LIMITS.budget(costs, decode_rows, depth), prompt - depth)
            durations.append(self.seconds(decode_rows, rows, depth))
            costs.observe(decode_rows, rows, depth, durations[-1])
            depth += rows
        return durations[:-1]


LIMITS = ChunkLimits(fixed=None, step_seconds=0.05)


def decoded(machine: LinearMachine, rows: int = 3) -> StepCostModel:
    """Return what is known after steps of decode rows only."""
    costs = StepCostModel()
    for _ in range(8):
        costs.observe(rows, 0, 0, machine.seconds(rows, 0))
    return costs


@pytest.mark.parametrize("row", [0.0002, 0.0005, 0.001])
def test_beside_decodes_a_step_comes_to_take_the_target_time(row: float) -> None:
    machine = LinearMachine(0.01, 0.0005, row)
    assert machine.run(decoded(machine), decode_rows=3) == pytest.approx(0.05, rel=0.1)


def test_alone_a_step_may_take_a_multiple_of_it() -> None:
    machine = LinearMachine(0.0, 0.0005, 0.0005)
    assert machine.run(StepCostModel(), decode_rows=0) == pytest.approx(0.05 * ALONE, rel=0.1)


def test_where_decoding_alone_takes_the_target_a_step_may_take_twice_that() -> None:
    machine = LinearMachine(0.2, 0.01, 0.001)
    costs = decoded(machine)
    assert LIMITS.seconds(costs, 3) == pytest.approx(0.46)
    assert machine.run(costs, decode_rows=3) == pytest.approx(0.46, rel=0.1)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_follows_a_machine_that_changes_its_speed(factor: float) -> None:
    machine = LinearMachine(0.005, 0.0005, 0.0005)
    costs = decoded(machine)
    machine.run(costs, decode_rows=3)
    machine.prefill_row *= factor
    assert machine.run(costs, decode_rows=3, steps=10) == pytest.approx(0.05, rel=0.15)


@pytest.mark.parametrize("decode_rows", [0, 3])
def test_a_chunk_takes_as_long_behind_a_long_prompt_as_in_a_new_one(decode_rows: int) -> None:
    machine = LinearMachine(0.004, 0.0005, 0.0003, doubling=2000)
    costs = decoded(machine)
    target = 0.05 if decode_rows else 0.05 * ALONE
    machine.read(costs, decode_rows, prompt=8000)
    for prompt, kept in ((3000, 0), (8200, 6000), (8000, 1000)):
        for seconds in machine.read(costs, decode_rows, prompt, kept):
            assert seconds == pytest.approx(target, rel=0.2)


def test_what_depth_costs_is_not_forgotten_while_all_prompts_are_short() -> None:
    machine = LinearMachine(0.004, 0.0005, 0.0003, doubling=2000)
    costs = decoded(machine)
    machine.read(costs, 3, prompt=8000)
    for _ in range(100):
        machine.read(costs, 3, prompt=200)
    assert machine.seconds(3, LIMITS.budget(costs, 3, 8000), 8000) == pytest.approx(0.05, rel=0.2)


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 4096), st.integers(0, 100_000), st.floats(1e-6, 100.0)), max_size=30
    ),
    st.integers(0, 8),
    st.integers(0, 100_000),
)
@settings(deadline=None)
def test_chunks_are_bounded_whatever_was_seen(
    seen: list[tuple[int, int, int, float]], decode_rows: int, depth: int
) -> None:
    costs = StepCostModel()
    for rows, chunk, deep, seconds in seen:
        costs.observe(rows or (0 if chunk else 1), chunk, deep, seconds)
        assert MIN_CHUNK <= LIMITS.budget(costs, decode_rows, depth) <= MAX_CHUNK


def test_begins_small() -> None:
    assert LIMITS.budget(StepCostModel(), 0, 0) == FIRST_CHUNK


def test_a_fixed_size_stays() -> None:
    limits, costs = ChunkLimits(fixed=100, step_seconds=0.05), StepCostModel()
    costs.observe(1, 100, 0, 50.0)
    assert limits.budget(costs, 0, 0) == limits.budget(costs, 7, 5000) == 100


def test_an_estimate_of_the_decode_share_that_is_off_does_not_blow_up_the_chunk() -> None:
    """A step with prompt rows that took no longer than one without says little about a row's cost."""
    costs = StepCostModel()
    for _ in range(8):
        costs.observe(2, 0, 0, 0.04)
    costs.observe(2, 64, 0, 0.03)
    assert LIMITS.budget(costs, 2, 0) * 0.003 / 64 <= LIMITS.seconds(costs, 2)


def test_what_is_about_to_be_superseded_is_read_in_steps_of_the_target_time_also_alone() -> None:
    machine = LinearMachine(0.01, 0.0, 0.001)
    costs = decoded(machine)
    machine.run(costs, 0)
    for decode_rows in (0, 3):
        rows = LIMITS.budget(costs, decode_rows, 0, is_brief=True)
        assert machine.seconds(decode_rows, rows) == pytest.approx(0.05, abs=0.002)
    slow = decoded(LinearMachine(0.1, 0.0, 0.01))
    slow.observe(1, 64, 0, 0.74)
    assert LIMITS.budget(slow, 0, 0, is_brief=True) >= MIN_CHUNK
