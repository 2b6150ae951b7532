"""How many threads a step is to use while other programs want the processor too.

The threads of a step meet after each operation, and one that another program keeps from running holds up the others:
beside one busy loop a step of one row took up to eight times as long on two threads as on one (bench/LOG.md).  So while
steps are seen to wait, fewer threads are tried, and kept where steps are faster for it; more are tried again from time
to time.  What decides is how long steps take, never a guess at what else is running.
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

WINDOW = 8  # steps by which to see that they wait
REMEMBERED = 32  # steps that a try is compared with
ENOUGH = 3  # steps of a kind among them
# A step computes all the time while nothing is in its way: below this share of it, it waits for its threads.
BUSY = 0.7
TRIED = 6  # steps of a try that are compared, after
WARM_UP = 1  # in which other threads are woken
MOST_TRIED = 24  # steps of a try, if it meets other kinds than those that are known
FASTER = 0.9  # of the time, to be worth a change
HOPELESS = 2.0  # times as long: a try ends at once
# Seconds until the next try in a direction: twice as many after each that failed, and so many that tries cost no more
# than this share of the time.
FIRST_WAIT, MOST_WAIT, COST = 2.0, 60.0, 0.02


@dataclass(slots=True)
class _Pause:
    """When to try the next time."""

    until: float = 0.0
    seconds: float = FIRST_WAIT

    def begin(self, now: float, cost: float) -> None:
        """After a try that brought nothing and took `cost` seconds more than its steps would have."""
        self.until = now + max(self.seconds, cost / COST)
        self.seconds = min(2 * self.seconds, MOST_WAIT)


@dataclass(slots=True)
class _Try:
    """Some steps on the `level`-th number of threads, beside how long such steps took before."""

    level: int
    expected: dict[Hashable, float]
    ratios: list[float] = field(default_factory=list)
    steps: int = 0
    cost: float = 0.0

    def observe(self, kind: Hashable, seconds: float) -> None:
        self.steps += 1
        expected = self.expected.get(kind)
        if expected is not None:
            self.cost += seconds - expected
            if self.steps > WARM_UP:
                self.ratios.append(seconds / expected)

    @property
    def ended(self) -> bool:
        hopeless = bool(self.ratios) and self.ratios[-1] > HOPELESS
        return hopeless or len(self.ratios) == TRIED or self.steps == MOST_TRIED

    @property
    def ratio(self) -> float:
        """Of the time that steps took before; infinity where too few are known."""
        return median(self.ratios) if len(self.ratios) == TRIED else float("inf")


class ThreadChoice:
    """Told of each step, says how many threads the next is to use.

    Args:
        most: threads to use while nothing is in the way.
    """

    def __init__(self, most: int) -> None:
        self._counts = [most]
        while self._counts[-1] > 1:
            self._counts.append(self._counts[-1] // 2)
        self._level = 0
        self._try: _Try | None = None
        # Of each step the kind, the seconds, and how many of them it was computing.
        self._recent: deque[tuple[Hashable, float, float]] = deque(maxlen=REMEMBERED)
        self._start_waiting(0.0)

    @property
    def threads(self) -> int:
        """Of the next step."""
        return self._counts[self._level if self._try is None else self._try.level]

    def observe(self, kind: Hashable, seconds: float, computing: float, now: float) -> None:
        """Take note of a step that ran to its end on that many threads.

        Args:
            kind: what it had to do, as its number of rows; steps of one kind are expected to take equally long.
            seconds: how long it took.
            computing: how much of that the thread that runs steps was on a processor.
            now: the time at its end, in seconds.
        """
        if self._try is None:
            self._recent.append((kind, seconds, computing))
            self._perhaps_try(now)
            return
        self._try.observe(kind, seconds)
        if self._try.ended:
            self._judge(self._try, now)

    def _perhaps_try(self, now: float) -> None:
        if len(self._recent) < WINDOW:
            return
        fewer, more = self._level + 1, self._level - 1
        if more >= 0 and now >= self._before_more.until:
            self._try = _Try(more, self._expected())
        elif fewer < len(self._counts) and now >= self._before_fewer.until and self._steps_wait():
            self._try = _Try(fewer, self._expected())

    def _steps_wait(self) -> bool:
        last = list(self._recent)[-WINDOW:]
        return sum(computing for _, _, computing in last) < BUSY * sum(seconds for _, seconds, _ in last)

    def _expected(self) -> dict[Hashable, float]:
        """How long steps take now, in seconds, by kind."""
        times: dict[Hashable, list[float]] = {}
        for kind, seconds, _ in self._recent:
            times.setdefault(kind, []).append(seconds)
        return {kind: median(own) for kind, own in times.items() if len(own) >= ENOUGH}

    def _judge(self, tried: _Try, now: float) -> None:
        self._try = None
        if tried.ratio > FASTER:
            pause = self._before_more if tried.level < self._level else self._before_fewer
            pause.begin(now, tried.cost)
            return
        logger.info(
            "steps take %.0f %% of the time on %d instead of %d threads, so that many it is for now%s",
            *(100 * tried.ratio, self._counts[tried.level], self._counts[self._level]),
            "; other programs want the processor" if tried.level > self._level else "",
        )
        self._level = tried.level
        self._recent.clear()
        self._start_waiting(now)

    def _start_waiting(self, now: float) -> None:
        self._before_fewer, self._before_more = _Pause(), _Pause(now + FIRST_WAIT)
