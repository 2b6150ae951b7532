"""Threads of a step, with invented times: fewer while others want the processor, then all again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.step.thread_tuner import (
    FIRST_WAIT,
    MAX_COST,
    MAX_TRIAL_STEPS,
    MAX_WAIT,
    RECENT_STEPS,
    TRIAL_STEPS,
    WARM_UP_STEPS,
    WINDOW,
    ThreadTuner,
)

ALONE = {4: 0.010, 2: 0.015, 1: 0.020}
BESIDE = {4: 0.080, 2: 0.060, 1: 0.022}


class Machine:
    """Runs steps that take invented times, by the number of threads, and keeps the time."""

    def __init__(self, most: int = 4) -> None:
        self.now = 0.0
        self.choice = ThreadTuner(most)
        self.used: list[int] = []

    def run(
        self, steps: int, seconds: Callable[[int], float], *, share: float | None = None, kind: object = 1
    ) -> list[int]:
        """Take that many steps; the threads of each.  They compute for `share` of their time: all of it on one."""
        for _ in range(steps):
            threads = self.choice.threads
            took = seconds(threads)
            self.now += took
            self.choice.observe(kind, took, took * (share or (0.3 if threads > 1 else 1.0)), self.now)
            self.used.append(threads)
        return self.used[-steps:]


def test_while_nothing_waits_all_threads_are_used() -> None:
    assert set(Machine().run(1000, ALONE.__getitem__, share=0.95)) == {4}


def test_beside_others_it_soon_goes_down_to_what_is_fastest() -> None:
    machine = Machine()
    machine.run(3 * (WINDOW + WARM_UP_STEPS + TRIAL_STEPS), BESIDE.__getitem__)
    assert machine.run(20, BESIDE.__getitem__) == [1] * 20


def test_fewer_threads_that_are_not_faster_are_given_up() -> None:
    """As where a step waits for something else than its threads."""
    machine = Machine(2)
    used = machine.run(4000, {2: 0.010, 1: 0.018}.__getitem__)
    assert used.count(1) < 0.05 * len(used)
    assert used[-50:].count(2) > 25


def test_once_others_rest_all_threads_are_used_again() -> None:
    machine = Machine()
    machine.run(100, BESIDE.__getitem__)
    assert machine.choice.threads == 1
    before = machine.now
    while machine.choice.threads < 4 or machine.used[-20:] != [4] * 20:
        machine.run(1, ALONE.__getitem__, share=0.95)
        assert machine.now < before + 2 * MAX_WAIT


def test_tries_cost_little_of_the_time() -> None:
    """Beside a program that never rests."""
    machine = Machine()
    machine.run(100, BESIDE.__getitem__)
    start, steps = machine.now, 20_000
    used = machine.run(steps, BESIDE.__getitem__)
    assert any(threads > 1 for threads in used)
    assert machine.now - start < (1 + 1.5 * MAX_COST) * steps * BESIDE[1]


def test_a_try_that_is_hopeless_ends_at_once() -> None:
    machine = Machine(2)
    times = {2: 0.080, 1: 0.022}
    machine.run(60, times.__getitem__)
    machine.now += FIRST_WAIT
    used = machine.run(60, times.__getitem__)
    assert used.count(2) == WARM_UP_STEPS + 1


def test_only_steps_of_one_kind_are_compared() -> None:
    """Many rows take longer than few: a try that meets others than were seen before learns nothing."""
    machine = Machine(2)
    machine.run(WINDOW, {2: 0.100}.__getitem__, kind="many")
    assert machine.choice.threads == 1
    used = machine.run(MAX_TRIAL_STEPS + 20, {2: 0.010, 1: 0.010}.__getitem__, share=0.95, kind="few")
    assert used == [1] * MAX_TRIAL_STEPS + [2] * 20


def test_a_single_thread_is_left_alone() -> None:
    assert set(Machine(1).run(100, {1: 0.01}.__getitem__, share=0.1)) == {1}


@pytest.mark.parametrize("most", [2, 3, 4, 12, 96])
def test_whatever_steps_take_there_are_between_one_and_all_threads(most: int) -> None:
    machine = Machine(most)
    used = machine.run(3000, lambda threads: (7 * len(machine.used) % 13 + 1) * threads / 1000)
    assert min(used) >= 1
    assert max(used) == most


def test_a_slow_machine_does_not_look_like_a_better_choice() -> None:
    """What steps took long ago says nothing: only the last ones are compared with."""
    machine = Machine(2)
    machine.run(RECENT_STEPS, {2: 0.100}.__getitem__, share=0.95)
    machine.run(RECENT_STEPS, {2: 0.010}.__getitem__, share=0.95)
    used = machine.run(WINDOW + WARM_UP_STEPS + TRIAL_STEPS, {2: 0.010, 1: 0.015}.__getitem__)
    assert 1 in used
    assert machine.choice.threads == 2
