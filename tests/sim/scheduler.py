"""Virtual time, and a scheduler fixed by one integer.

This module reads private names of Trio, for two things that Trio has no public way to: the random numbers that order
its tasks, and the end of a task that waits under a shield.
"""

# ruff: noqa: SLF001

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import trio
from trio._core import _run as trio_scheduler
from trio.testing import MockClock

T = TypeVar("T")

FOREVER = 1e7  # virtual seconds: whatever is still waiting then waits for nothing
MOST_PASSES = 20_000  # of the scheduler in one moment of virtual time: whatever still runs then goes round in circles


@contextmanager
def seeded_scheduler(seed: int) -> Iterator[None]:
    """Within, Trio runs the tasks that are ready in an order that depends on `seed` alone.

    Trio has these two names for Hypothesis, which sets them in this way.
    """
    state, allowed = trio_scheduler._r.getstate(), trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_scheduler._r.seed(seed)
    try:
        yield
    finally:
        trio_scheduler._r.setstate(state)
        trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = allowed  # type: ignore[misc]


class Hung(Exception):
    """Every task waits, and nothing will ever wake one; or some run, and time stands still."""


def run(main: Callable[[], Awaitable[T]], *, seed: int = 0, instruments: Sequence[trio.abc.Instrument] = ()) -> T:
    """Run `main` in virtual time under the scheduler of `seed`.

    Raises:
        Hung: it would have waited for ever.
    """

    async def watched() -> T:
        main_task = trio.lowlevel.current_task()
        trio.lowlevel.spawn_system_task(_end_those_who_wait_for_ever, main_task)
        trio.lowlevel.add_instrument(_StandingStill(main_task))
        return await main()

    with seeded_scheduler(seed):
        return trio.run(watched, clock=MockClock(autojump_threshold=0), instruments=instruments)


async def _end_those_who_wait_for_ever(main: trio.lowlevel.Task) -> None:
    """Virtual time gets this far only when nothing else can happen."""
    while True:
        await trio.sleep(FOREVER)
        _end_family(main)


class _StandingStill(trio.abc.Instrument):
    """Ends those who run and run while time stands still."""

    def __init__(self, main: trio.lowlevel.Task) -> None:
        self._main = main
        self._now = 0.0
        self._passes = 0  # of the scheduler, in this moment

    def before_io_wait(self, timeout: float) -> None:
        """Count a pass of the scheduler."""
        self._now, before = trio.current_time(), self._now
        self._passes = self._passes + 1 if self._now == before else 0
        if self._passes == MOST_PASSES:
            _end_family(self._main)


def _end_family(main: trio.lowlevel.Task) -> None:
    """End whoever waits; a cancel would not do, since some waits are shielded."""
    for task in _family(main):
        if task._abort_func is not None:  # as Trio delivers a KeyboardInterrupt
            task._attempt_abort(functools.partial(_raise_hung, task.name))


def _raise_hung(name: str) -> NoReturn:
    raise Hung(f"I7: {name} would never end")


def _family(task: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return [task, *(member for child in children for member in _family(child))]


def simulated(seeds: int = 2) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make an async test run in virtual time, once under each of `seeds` schedulers."""

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(scenario)
        def test(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever fixtures the scenario takes
            for seed in range(seeds):
                try:
                    run(functools.partial(scenario, *args, **kwargs), seed=seed)
                except BaseException as error:
                    error.add_note(f"under scheduler seed {seed}")
                    raise

        return test

    return decorate


class AtStep(trio.abc.Instrument):
    """Calls `act` just before the n-th step of a task, and counts the steps.

    A step of a task is what it does between two of its checkpoints, so over all n this is every moment at which
    anything outside a task can happen to it.

    Args:
        n: counted from 0; None only counts.
        act: must not raise.
        counts: which steps count; None for all.
    """

    def __init__(
        self, n: int | None, act: Callable[[], object], counts: Callable[[trio.lowlevel.Task], bool] | None = None
    ) -> None:
        self.steps = 0
        self._n = n
        self._act = act
        self._counts = counts

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step, and act before the n-th."""
        if self._counts is None or self._counts(task):
            if self.steps == self._n:
                self._act()
            self.steps += 1
