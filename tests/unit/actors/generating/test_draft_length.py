"""Draft lengths against machines and texts whose costs and acceptance are known."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generating.draft_length import FIRST, MOST, PAUSE, Acceptance, DraftLength, StepCosts

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = 3000


@dataclass
class Machine:
    """Steps that cost a fixed part and so much for each row, in units of a plain step, and now and then more."""

    draft: float = 0.1
    draft_row: float = 0.003
    row: float = 0.03
    others: int = 0
    noise: float = 0.1
    random: random.Random = field(default_factory=lambda: random.Random(2))
    costs: StepCosts = field(default_factory=StepCosts)

    def draft_seconds(self, rows: int) -> float:
        return self.draft + self.draft_row * (rows - 1)

    def target_seconds(self, rows: int) -> float:
        return 1 + self.row * (rows - 1)

    def _jitter(self) -> float:
        late = 5 if self.random.random() < 0.01 else 1  # the garbage collector, or a neighbour on the machine
        return late * self.random.uniform(1 - self.noise, 1 + self.noise)

    def round_seconds(self, drafts: int, behind: int, *, learn: bool = True) -> float:
        """A round of one stream among others that do as it does; what is learnt is subject to noise, the sum is not."""
        streams = self.others + 1
        steps = [(False, streams * (drafts + 1))] + [(True, streams)] * drafts
        if drafts and behind:
            steps.append((True, behind))
        total = 0.0
        for drafting, rows in steps:
            seconds = self.draft_seconds(rows) if drafting else self.target_seconds(rows)
            total += seconds
            if learn:
                observe = self.costs.observe_draft if drafting else self.costs.observe_target
                observe(rows, seconds * self._jitter())
        return total


def always(rate: float) -> Callable[[int], float]:
    return lambda _: rate


def generate(
    length: DraftLength, machine: Machine, rate: Callable[[int], float], tokens: int = TOKENS, prompt: int = 0
) -> float:
    """Write so many tokens after a prompt that the drafter has not read; tokens per second.

    `rate` says how likely a draft is accepted that so many tokens precede.
    """
    seconds, written, read = 0.0, 0, -prompt
    while written < tokens:
        behind = max(0, written - read - 1)
        drafts = length.next(machine.costs, machine.others, behind)
        accepted = 0
        while accepted < drafts and machine.random.random() < rate(written + accepted):
            accepted += 1
        seconds += machine.round_seconds(drafts, behind)
        if drafts:
            read = written + accepted
        written += accepted + 1
        length.observe(drafts, accepted)
    return written / seconds


def best_fixed(machine: Machine, rate: float) -> float:
    """Tokens per second of the best number of drafts, without noise and expected."""
    return max(
        sum(rate**i for i in range(drafts + 1)) / machine.round_seconds(drafts, 0, learn=False)
        for drafts in range(MOST + 1)
    )


MACHINES: dict[str, dict[str, Any]] = {
    "cheap drafts": {"draft": 0.05},
    "dear drafts": {"draft": 0.4},
    "lookup": {"draft": 0.0, "draft_row": 0.0},
    "dear rows": {"draft": 0.1, "row": 0.25},
    "dear lookups": {"draft": 0.0, "draft_row": 0.0, "row": 0.3},
    "noisy": {"draft": 0.15, "noise": 0.4},
}


def _opened(kind: str, others: int = 0, prior: Acceptance | None = None) -> tuple[DraftLength, Machine]:
    return DraftLength(free="lookup" in kind, prior=prior), Machine(**MACHINES[kind], others=others)


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.7, 0.9, 0.98])
@pytest.mark.parametrize("kind", MACHINES)
def test_is_nearly_as_fast_as_the_best_fixed_number(kind: str, rate: float, others: int) -> None:
    """Nobody tells it the machine or the text; some of the difference is luck."""
    length, machine = _opened(kind, others)
    assert generate(length, machine, always(rate)) >= 0.92 * best_fixed(machine, rate)


@pytest.mark.parametrize("kind", MACHINES)
def test_is_nearly_as_fast_on_the_average(kind: str) -> None:
    rates = (0.3, 0.5, 0.7, 0.9)
    shares = []
    for rate in rates:
        length, machine = _opened(kind)
        shares.append(generate(length, machine, always(rate)) / best_fixed(machine, rate))
    assert sum(shares) / len(shares) >= 0.96


@pytest.mark.parametrize("tokens", [200, 500, 2000])
@pytest.mark.parametrize("kind", MACHINES)
def test_where_drafts_are_hopeless_next_to_nothing_is_lost(kind: str, tokens: int) -> None:
    """A first request finds it out, which takes a few tokens' time; those after it need not."""
    prior = Acceptance()
    length, machine = _opened(kind, prior=prior)
    assert generate(length, machine, always(0.02), tokens) >= 0.97 * (1 - 4 / tokens)
    length, _ = _opened(kind, prior=prior)
    assert generate(length, machine, always(0.02), tokens) >= 0.98


@pytest.mark.parametrize(("before", "after"), [(0.05, 0.95), (0.95, 0.05), (0.4, 0.9)])
@pytest.mark.parametrize("kind", MACHINES)
def test_follows_a_text_that_changes(kind: str, before: float, after: float) -> None:
    length, machine = _opened(kind)
    speed = generate(length, machine, lambda at: before if at < 600 else after)
    knowing = TOKENS / (600 / best_fixed(machine, before) + (TOKENS - 600) / best_fixed(machine, after))
    assert speed >= 0.85 * knowing


def test_tries_become_rarer() -> None:
    length, machine = _opened("dear drafts")
    tried: list[int] = []

    def rate(at: int) -> float:
        tried.append(at)
        return 0.0

    generate(length, machine, rate, 5000)
    pauses = [b - a for a, b in pairwise(tried) if b - a > 1]
    assert PAUSE <= pauses[0] < 3 * PAUSE
    assert 8 * PAUSE < pauses[-1] < 20 * PAUSE


# --- what the drafter has missed ------------------------------------------------------------------------------------


def test_a_drafter_that_must_read_much_first_is_not_tried() -> None:
    """Reading what it missed takes it longer than a try may cost, however long the pause."""
    machine = Machine(draft=0.2, draft_row=0.2)
    prior = Acceptance()
    generate(DraftLength(prior=prior), machine, always(0.0), 300, prompt=100)
    tried: list[int] = []

    def rate(at: int) -> float:
        tried.append(at)
        return 0.0

    generate(DraftLength(prior=prior), machine, rate, 3000, prompt=500)
    assert tried == []


def test_a_long_prompt_is_worth_reading_where_drafts_are_good() -> None:
    """It is read once, so its cost counts by the tokens that it serves."""
    machine = Machine(draft=0.1, draft_row=0.005)
    prior = Acceptance()
    for _ in range(2):
        generate(DraftLength(prior=prior), machine, always(0.9), 150, prompt=100)
    costs = machine.costs
    assert DraftLength(prior=prior).next(costs, 0, behind=1000) > 2
    assert DraftLength(prior=prior).next(costs, 0, behind=1_000_000) == 0


def test_a_proposer_that_was_given_up_gets_another_chance() -> None:
    """Even where no request may try it: each begins a little more hopeful than the last."""
    machine = Machine(draft=0.2, draft_row=0.05)
    prior = Acceptance()
    generate(DraftLength(), machine, always(0.0), 100, prompt=50)  # steps are known
    for _ in range(100):
        prior.observe(1, 0)
    speeds = [generate(DraftLength(prior=prior), machine, always(0.9), 100, prompt=50) for _ in range(40)]
    assert speeds[0] == 1
    assert max(speeds) > 1.1


# --- others ---------------------------------------------------------------------------------------------------------


def test_in_company_fewer_are_drafted() -> None:
    """Where rows are dear, a batch leaves nothing to gain from more of them."""
    length, machine = _opened("dear lookups")
    generate(length, machine, always(0.6), 500)
    alone = length.next(machine.costs, 0)
    assert alone > 0
    assert length.next(machine.costs, 30) == 0
    assert length.next(machine.costs, 0) > 0, "and more again when they have gone"


def test_a_prior_saves_the_first_tries() -> None:
    length, machine = _opened("cheap drafts", prior=(prior := Acceptance()))
    generate(length, machine, always(0.95))
    assert DraftLength(prior=prior).next(machine.costs, 0) > 6
    assert DraftLength().next(machine.costs, 0) < 6


# --- before anything is known, and what is fixed --------------------------------------------------------------------


def test_begins_with_a_few() -> None:
    assert DraftLength().next(StepCosts(), 0) == FIRST
    assert DraftLength(most=2).next(StepCosts(), 0) == 2
    costs = StepCosts()
    for _ in range(2):
        costs.observe_target(1, 0.1)
    assert DraftLength().next(costs, 0) == FIRST, "nothing is known of the drafter yet"
    assert DraftLength(free=True).next(costs, 0) == MOST, "nor of what a row costs"


def test_the_first_step_of_a_size_says_nothing() -> None:
    """It may take ten times as long, and there might be none after it that could correct the picture."""
    costs = StepCosts()
    for rows in (1, 4):
        costs.observe_target(rows, 1.0)
        assert costs.target_seconds(rows) in (None, 0.1)
        costs.observe_target(rows, 0.1)
    costs.observe_draft(1, 1.0)
    assert costs.draft_seconds(1) is None


@pytest.mark.parametrize("fixed", [0, 1, 5, 16])
def test_a_fixed_number_stays(fixed: int) -> None:
    length = DraftLength(fixed)
    for accepted in [0] * 50 + [fixed] * 50:
        assert length.next(StepCosts(), 3, 10) == fixed
        length.observe(fixed, accepted)


# --- estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("proposed", [1, 3, 8])
def test_acceptance_is_that_of_each_draft(rate: float, proposed: int) -> None:
    """However many were proposed at a time: after the first rejected one nothing is learnt."""
    acceptance, numbers = Acceptance(forget=0.999), random.Random(2)
    for _ in range(3000):
        accepted = 0
        while accepted < proposed and numbers.random() < rate:
            accepted += 1
        acceptance.observe(proposed, accepted)
    assert acceptance.rate == pytest.approx(rate, abs=0.05)


def _measured(steps: list[tuple[int, float]]) -> StepCosts:
    costs = StepCosts()
    for rows, seconds in steps:
        costs.observe_target(rows, seconds)
    return costs


def _at(costs: StepCosts, rows: int) -> float:
    seconds = costs.target_seconds(rows)
    assert seconds is not None
    return seconds


def test_a_line_is_found() -> None:
    costs = _measured([(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 1, 2, 8, 1, 5) * 20])
    for rows in (1, 3, 20):
        assert _at(costs, rows) == pytest.approx(0.01 + 0.002 * rows, rel=1e-3)
    assert costs.draft_seconds(1) is None


def test_of_steps_with_the_same_rows_more_rows_cost_no_more() -> None:
    costs = _measured([(3, 0.01), (3, 0.02)] * 100)
    assert _at(costs, 1) == _at(costs, 3) == _at(costs, 50) == pytest.approx(0.015, rel=0.05)


def test_what_a_row_costs_is_remembered_for_as_long_as_it_takes() -> None:
    numbers = random.Random(3)
    learnt = [(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 2, 5)] * 5
    costs = _measured([*learnt, *((1, 0.012 * numbers.uniform(0.8, 1.2)) for _ in range(5000))])
    assert _at(costs, 5) - _at(costs, 1) == pytest.approx(0.008, rel=0.5)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_follows_a_machine_that_changes_its_speed(factor: float) -> None:
    steps = [(rows, 0.01 + 0.002 * rows) for rows in (1, 4, 2, 5)] * 100
    costs = _measured(steps + [(rows, factor * seconds) for rows, seconds in steps])
    for rows in (1, 5):
        assert _at(costs, rows) == pytest.approx(factor * (0.01 + 0.002 * rows), rel=0.1)


def test_one_late_step_does_not_say_much() -> None:
    costs = _measured([(1, 0.01)] * 100 + [(1, 60.0)])
    assert _at(costs, 1) < 0.0105


# --- whatever happens -----------------------------------------------------------------------------------------------

seen_steps = st.lists(st.tuples(st.integers(1, 4096), st.floats(0, 1e3), st.booleans()), max_size=40)
rounds = st.lists(st.tuples(st.integers(0, 64), st.integers(0, 5000), st.integers(0, 8)), max_size=60)


@given(seen_steps, rounds, st.integers(0, 8), st.booleans(), st.floats(0, 1))
@settings(deadline=None)
def test_never_more_than_there_may_be(
    steps: list[tuple[int, float, bool]],
    rounds: list[tuple[int, int, int]],
    most: int,
    free: bool,
    rate: float,
) -> None:
    costs, prior = StepCosts(), Acceptance(rate)
    length = DraftLength(most=most, free=free, prior=prior)
    seen = iter(steps)
    for others, behind, luck in rounds:
        drafts = length.next(costs, others, behind)
        assert 0 <= drafts <= most
        length.observe(drafts, min(luck, drafts))
        assert 0 <= prior.rate <= 1
        for rows, seconds, drafting in [next(seen, (1, 0.0, True)), next(seen, (1, 0.0, False))]:
            (costs.observe_draft if drafting else costs.observe_target)(rows, seconds)
        for rows in (1, 2, 1000):
            for found in (costs.draft_seconds(rows), costs.target_seconds(rows)):
                assert found is None or (found >= 0 and math.isfinite(found))
