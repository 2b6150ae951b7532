"""Tuning of a step's threads while other programs want the processor too.

The threads of a step meet after each operation, and one that another program keeps from running holds up the others:
beside one busy loop a step of one row took up to eight times as long on two threads as on one (bench/LOG.md).  So while
steps are seen to wait, fewer threads are tried, and kept where steps are faster; more are tried again from time to
time.  What decides is how long steps take, never a guess at what else is running.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

logger = logging.getLogger("cede.model")

WINDOW = 8  # steps that tell whether steps wait
RECENT_STEPS = 32  # steps that a trial is compared with
MIN_OF_A_KIND = 3  # steps of a kind among them, to know how long that kind takes
# A step computes all the time while nothing is in its way: below this share of it, it waits for its threads.
BUSY_SHARE = 0.7
WARM_UP_STEPS = 1  # first steps of a trial, in which other threads are woken; they do not count
TRIAL_STEPS = 6  # steps of a trial that are compared
MAX_TRIAL_STEPS = 24  # steps of a trial in all, if it meets other kinds than those that are known
WORTH_A_CHANGE = 0.9  # of the time before: a trial that is not faster than that changes nothing
HOPELESS = 2.0  # times the time before: a trial that meets it ends at once
# Seconds until the next trial in a direction: twice as many after each that failed, and so many that trials cost no
# more than `MAX_COST` of the time.
FIRST_WAIT, MAX_WAIT, MAX_COST = 2.0, 60.0, 0.02


@dataclass(slots=True)
class _Pause:
    """Pause until the next trial in a direction may begin."""

    until: float = 0.0  # seconds, as `now` of `ThreadTuner.observe`
    seconds: float = FIRST_WAIT

    def begin(self, now: float, cost: float) -> None:
        """Wait after a trial that failed, and took `cost` seconds more than its steps would have."""
        self.until = now + max(self.seconds, cost / MAX_COST)
        self.seconds = min(2 * self.seconds, MAX_WAIT)


@dataclass(slots=True)
class _Trial:
    """Some steps on another number of threads, compared with how long such steps took before.

    Attributes:
        level: which of the tuner's numbers of threads.
        expected: seconds of a step before, by kind.
        ratios: of each step that counts, its seconds over those expected.
        steps: steps so far.
        cost: seconds that these took more than expected.
    """

    level: int
    expected: dict[Hashable, float]
    ratios: list[float] = field(default_factory=list)
    steps: int = 0
    cost: float = 0.0

    def observe(self, kind: Hashable, seconds: float) -> None:
        """Take note of a step."""
        self.steps += 1
        expected = self.expected.get(kind)
        if expected is not None:
            self.cost += seconds - expected
            if self.steps > WARM_UP_STEPS:
                self.ratios.append(seconds / expected)

    @property
    def ended(self) -> bool:
        """Return whether enough is known."""
        hopeless = bool(self.ratios) and self.ratios[-1] > HOPELESS
        return hopeless or len(self.ratios) == TRIAL_STEPS or self.steps == MAX_TRIAL_STEPS

    @property
    def ratio(self) -> float:
        """The time of a step over that before; infinity where too few steps could be compared."""
        return median(self.ratios) if len(self.ratios) == TRIAL_STEPS else float("inf")


class ThreadTuner:
    """Tuner that is told of each step, and says how many threads the next is to use.

    Args:
        max_threads: threads to use while nothing is in the way.
    """

    def __init__(self, max_threads: int) -> None:
        self._counts = [max_threads]
        while self._counts[-1] > 1:
            self._counts.append(self._counts[-1] // 2)
        self._level = 0  # which of the counts is in use, trials aside
        self._trial: _Trial | None = None
        self._recent: deque[tuple[Hashable, float, float]] = deque(maxlen=RECENT_STEPS)  # kind, seconds, computing
        self._start_waiting(0.0)

    @property
    def threads(self) -> int:
        """Return how many threads the next step is to use."""
        return self._counts[self._level if self._trial is None else self._trial.level]

    def observe(self, kind: Hashable, seconds: float, computing: float, now: float) -> None:
        """Take note of a step that ran to its end on that many threads.

        Args:
            kind: what it had to do, as its number of rows; steps of one kind are expected to take equally long.
            seconds: how long it took.
            computing: for how many of these the thread that runs steps was on a processor.
            now: the time at its end, in seconds.
        """
        if self._trial is None:
            self._recent.append((kind, seconds, computing))
            self._begin_trial_if_due(now)
            return
        self._trial.observe(kind, seconds)
        if self._trial.ended:
            self._end_trial(self._trial, now)

    def _begin_trial_if_due(self, now: float) -> None:
        if len(self._recent) < WINDOW:
            return
        fewer, more = self._level + 1, self._level - 1
        if more >= 0 and now >= self._before_more.until:
            self._trial = _Trial(more, self._expected())
        elif fewer < len(self._counts) and now >= self._before_fewer.until and self._steps_wait():
            self._trial = _Trial(fewer, self._expected())

    def _steps_wait(self) -> bool:
        last = list(self._recent)[-WINDOW:]
        return sum(computing for _, _, computing in last) < BUSY_SHARE * sum(seconds for _, seconds, _ in last)

    def _expected(self) -> dict[Hashable, float]:
        """Return how long steps take now, in seconds, by kind."""
        times: dict[Hashable, list[float]] = {}
        for kind, seconds, _ in self._recent:
            times.setdefault(kind, []).append(seconds)
        return {kind: median(own) for kind, own in times.items() if len(own) >= MIN_OF_A_KIND}

    def _end_trial(self, trial: _Trial, now: float) -> None:
        self._trial = None
        if trial.ratio > WORTH_A_CHANGE:
            pause = self._before_more if trial.level < self._level else self._before_fewer
            pause.begin(now, trial.cost)
            return
        logger.info(
            "steps take %.0f %% of the time on %d instead of %d threads, and use so many from now on%s",
            100 * trial.ratio,
            self._counts[trial.level],
            self._counts[self._level],
            "; other programs want the processor" if trial.level > self._level else "",
        )
        self._level = trial.level
        self._recent.clear()
        self._start_waiting(now)

    def _start_waiting(self, now: float) -> None:
        self._before_fewer, self._before_more = _Pause(), _Pause(now + FIRST_WAIT)
