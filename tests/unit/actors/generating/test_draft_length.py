"""Draft lengths against machines and texts whose costs and acceptance are known."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generating.draft_length import FIRST_DRAFTS, MAX_DRAFTS, TRY_PAUSE, Acceptance, DraftLength
from actors.scheduling.costs import StepCostModel
from bench.engine.draft_policies import MACHINES, Machine, best_seconds, generate

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = 3000


def always(rate: float) -> Callable[[int], float]:
    """A text of which each draft is accepted with the same probability."""
    return lambda _: rate


def write(
    length: DraftLength, machine: Machine, rate: Callable[[int], float], tokens: int = TOKENS, prompt: int = 0
) -> float:
    """Tokens per second."""
    return 1 / generate(length, machine, rate, tokens, prompt)


def best_speed(machine: Machine, rate: float) -> float:
    """Tokens per second of the best number of drafts."""
    return 1 / best_seconds(machine, rate)


def next_of(length: DraftLength, machine: Machine, others: int = 0, behind: int = 0) -> int:
    """Return what it drafts next on a machine that it knows."""
    return length.next(machine.costs.target, machine.drafter, others, behind)


def opened(kind: str, others: int = 0, prior: Acceptance | None = None) -> tuple[DraftLength, Machine]:
    """A request on a machine of which nothing is known."""
    return DraftLength(prior=prior), Machine(**MACHINES[kind], others=others)


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.7, 0.9, 0.98])
@pytest.mark.parametrize("kind", MACHINES)
def test_is_nearly_as_fast_as_the_best_fixed_number(kind: str, rate: float, others: int) -> None:
    """Nobody tells it the machine or the text; some of the difference is luck."""
    length, machine = opened(kind, others)
    assert write(length, machine, always(rate)) >= 0.92 * best_speed(machine, rate)


@pytest.mark.parametrize("kind", MACHINES)
def test_is_nearly_as_fast_on_the_average(kind: str) -> None:
    rates = (0.3, 0.5, 0.7, 0.9)
    shares = []
    for rate in rates:
        length, machine = opened(kind)
        shares.append(write(length, machine, always(rate)) / best_speed(machine, rate))
    assert sum(shares) / len(shares) >= 0.96


@pytest.mark.parametrize("tokens", [200, 500, 2000])
@pytest.mark.parametrize("kind", MACHINES)
def test_where_drafts_are_hopeless_next_to_nothing_is_lost(kind: str, tokens: int) -> None:
    """A first request finds it out, which takes a few tokens' time; those after it need not."""
    prior = Acceptance()
    length, machine = opened(kind, prior=prior)
    assert write(length, machine, always(0.02), tokens) >= 0.97 * (1 - 4 / tokens)
    length, _ = opened(kind, prior=prior)
    assert write(length, machine, always(0.02), tokens) >= 0.98


@pytest.mark.parametrize(("before", "after"), [(0.05, 0.95), (0.95, 0.05), (0.4, 0.9)])
@pytest.mark.parametrize("kind", MACHINES)
def test_follows_a_text_that_changes(kind: str, before: float, after: float) -> None:
    length, machine = opened(kind)
    speed = write(length, machine, lambda at: before if at < 600 else after)
    knowing = TOKENS / (600 / best_speed(machine, before) + (TOKENS - 600) / best_speed(machine, after))
    assert speed >= 0.85 * knowing


def test_tries_cost_a_small_share_of_the_time() -> None:
    length, machine = opened("dear drafts")
    tried: list[int] = []

    def rate(at: int) -> float:
        tried.append(at)
        return 0.0

    write(length, machine, rate, 5000)
    pauses = [b - a for a, b in pairwise(tried) if b - a > 1]
    assert min(pauses) >= TRY_PAUSE
    assert len(pauses) * machine.draft <= 0.03 * 5000


# --- what the drafter has missed ------------------------------------------------------------------------------------


def test_a_drafter_that_must_read_much_first_is_not_tried() -> None:
    """Reading what it missed takes it longer than a try may cost, however long the pause."""
    machine = Machine(draft=0.2, draft_row=0.2)
    prior = Acceptance()
    write(DraftLength(prior=prior), machine, always(0.0), 300, prompt=100)
    tried: list[int] = []

    def rate(at: int) -> float:
        tried.append(at)
        return 0.0

    write(DraftLength(prior=prior), machine, rate, 3000, prompt=500)
    assert tried == []


def test_a_long_prompt_is_worth_reading_where_drafts_are_good() -> None:
    """It is read once, so its cost counts by the tokens that it serves."""
    machine = Machine(draft=0.1, draft_row=0.005)
    prior = Acceptance()
    for _ in range(2):
        write(DraftLength(prior=prior), machine, always(0.9), 150, prompt=100)
    assert next_of(DraftLength(prior=prior), machine, behind=1000) > 2
    assert next_of(DraftLength(prior=prior), machine, behind=1_000_000) == 0


def test_a_proposer_that_was_given_up_gets_another_chance() -> None:
    """Even where no request may try it: each begins a little more hopeful than the last."""
    machine = Machine(draft=0.2, draft_row=0.05)
    prior = Acceptance()
    write(DraftLength(), machine, always(0.0), 100, prompt=50)  # steps are known
    for _ in range(100):
        prior.observe(1, 0)
    speeds = [write(DraftLength(prior=prior), machine, always(0.9), 100, prompt=50) for _ in range(40)]
    assert speeds[0] == 1
    assert max(speeds) > 1.1


# --- others ---------------------------------------------------------------------------------------------------------


def test_in_company_fewer_are_drafted() -> None:
    """Where rows are dear, a batch leaves nothing to gain from more of them."""
    length, machine = opened("dear lookups")
    write(length, machine, always(0.6), 500)
    alone = next_of(length, machine)
    assert alone > 0
    assert next_of(length, machine, others=30) == 0
    assert next_of(length, machine) > 0, "and more again when they have gone"


def test_where_drafts_leave_no_state_there_are_fewer() -> None:
    """Of those that are accepted some are read again, which counts as what rows take."""
    prior, costs = Acceptance(), StepCostModel()
    for rows in [1, 9] * 100:
        prior.observe(10, 9)
        costs.observe(rows, 0, 0, 0.8 + 0.2 * rows)
    drafts = [DraftLength(prior=prior, states=states).next(costs, None, 0) for states in (9, 6, 2)]
    assert drafts == sorted(drafts, reverse=True)
    assert drafts[0] > drafts[-1] > 1, "more than there are states for"


def test_a_prior_saves_the_first_tries() -> None:
    length, machine = opened("cheap drafts", prior=(prior := Acceptance()))
    write(length, machine, always(0.95))
    assert next_of(DraftLength(prior=prior), machine) > 6
    assert next_of(DraftLength(), machine) < 6


# --- before anything is known, and what is fixed --------------------------------------------------------------------


def test_begins_with_a_few() -> None:
    target, drafter = StepCostModel(), StepCostModel()
    assert DraftLength().next(target, drafter, 0) == FIRST_DRAFTS
    assert DraftLength(max_drafts=1).next(target, drafter, 0) == 1
    for _ in range(2):
        target.observe(1, 0, 0, 0.1)
    assert DraftLength().next(target, drafter, 0) == FIRST_DRAFTS, "nothing is known of the drafter yet"
    assert DraftLength().next(target, None, 0) == MAX_DRAFTS, "nor of what a row costs"


@pytest.mark.parametrize("fixed", [0, 1, 5, 16])
def test_a_fixed_number_stays(fixed: int) -> None:
    length = DraftLength(fixed)
    for accepted in [0] * 50 + [fixed] * 50:
        assert length.next(StepCostModel(), StepCostModel(), 3, 10) == fixed
        length.observe(fixed, accepted)


# --- estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("drafted", [1, 3, 8])
def test_acceptance_is_that_of_each_draft(rate: float, drafted: int) -> None:
    """However many were drafted at a time: after the first rejected one nothing is learnt."""
    acceptance, numbers = Acceptance(memory=0.999), random.Random(2)
    for _ in range(3000):
        accepted = 0
        while accepted < drafted and numbers.random() < rate:
            accepted += 1
        acceptance.observe(drafted, accepted)
    assert acceptance.rate == pytest.approx(rate, abs=0.05)


# --- whatever happens -----------------------------------------------------------------------------------------------

seen_steps = st.lists(st.tuples(st.integers(1, 4096), st.floats(0, 1e3), st.booleans()), max_size=40)
rounds = st.lists(st.tuples(st.integers(0, 64), st.integers(0, 5000), st.integers(0, 8)), max_size=60)


@given(seen_steps, rounds, st.integers(0, 8), st.booleans(), st.floats(0, 1))
@settings(deadline=None)
def test_never_more_than_there_may_be(
    steps: list[tuple[int, float, bool]],
    rounds: list[tuple[int, int, int]],
    most: int,
    looked_up: bool,
    rate: float,
) -> None:
    target, drafter, prior = StepCostModel(), StepCostModel(), Acceptance(rate)
    length = DraftLength(max_drafts=most, prior=prior)
    seen = iter(steps)
    for others, behind, luck in rounds:
        drafts = length.next(target, None if looked_up else drafter, others, behind)
        assert 0 <= drafts <= most
        length.observe(drafts, min(luck, drafts))
        assert 0 <= prior.rate <= 1
        for rows, seconds, drafting in [next(seen, (1, 0.0, True)), next(seen, (1, 0.0, False))]:
            (drafter if drafting else target).observe(rows, 0, 0, seconds)
