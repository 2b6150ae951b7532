"""Findings of `actors.diagnostics.loop_watch`: who held the event loop, and for how long."""

from __future__ import annotations

import enum
import threading
from collections import deque
from dataclasses import dataclass

LATEST = 16  # holds that are kept one by one
COMPUTING_SHARE = 0.2  # of a step's time on a processor, with which it is not somebody else who held the interpreter
UNSEEN_SHARE = 0.5  # of a step, for which nobody could even look at it: the interpreter was held


class Cause(enum.StrEnum):
    """Cause of the event loop's standstill."""

    COMPUTING = "computing"
    """Its own task used the processor for longer than a step may take."""

    WAITING = "waiting"
    """Its own task was in a call that waits (a file, a lock), or the machine gave it no processor."""

    INTERPRETER = "interpreter"
    """Another thread held the interpreter, in a C call that does not let go of it, so that no thread could run.  Where
    the system is not Linux, the machine may as well have given no processor to any."""


@dataclass(frozen=True, slots=True)
class LoopHold:
    """A time in which the event loop stood still: nobody else's task could run.

    Attributes:
        seconds: how long it was.
        cpu_seconds: of these, what the loop's thread spent on a processor.
        task: the name of Trio's task whose step it was; empty where the loop was kept from running between two steps.
        where: what the task was running, the innermost function first, or, where nobody could look meanwhile, what it
            waited for next.
        others: where another thread held the interpreter, what each of the other threads was running.
    """

    seconds: float
    cpu_seconds: float
    cause: Cause
    task: str
    where: tuple[str, ...]
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say in one line how long it was, why, and where."""
        whose = f"in {self.task}, at {' < '.join(self.where) or 'its end'}" if self.task else "between two steps"
        beside = f", other threads at {', '.join(self.others)}" if self.others else ""
        return f"{self.seconds * 1e3:.0f} ms ({self.cause}) {whose}{beside}"


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """Statistics of what held the event loop, since the start; only with `--watch-loop`.

    Attributes:
        threshold_seconds: shorter holds are not counted.
        steps: of all tasks, short ones too.
        holds, held_seconds: by cause.
        worst: the longest hold; None before the first.
        latest: the newest holds, newest first.
    """

    threshold_seconds: float
    steps: int
    holds: dict[str, int]
    held_seconds: dict[str, float]
    worst: LoopHold | None
    latest: tuple[LoopHold, ...]


def cause_of(seconds: float, cpu_seconds: float, unseen_seconds: float, threshold: float) -> Cause:
    """Tell why a step took so long.

    Args:
        seconds: of the step.
        cpu_seconds: of these, spent on a processor.
        unseen_seconds: for which another thread that wanted to look at the step could not have the interpreter.
        threshold: seconds that a step may take.
    """
    if cpu_seconds < COMPUTING_SHARE * seconds and unseen_seconds >= UNSEEN_SHARE * seconds:
        return Cause.INTERPRETER
    return Cause.COMPUTING if cpu_seconds >= threshold else Cause.WAITING


class HoldLog:
    """Counts holds and keeps the worst and the latest.  Two threads add to it, hence the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = dict.fromkeys(Cause, 0)
        self._seconds = dict.fromkeys(Cause, 0.0)
        self._worst: LoopHold | None = None
        self._latest: deque[LoopHold] = deque(maxlen=LATEST)

    @property
    def total(self) -> int:
        """Return how many holds there have been."""
        return sum(self._count.values())

    @property
    def latest(self) -> LoopHold | None:
        """The newest hold; None before the first."""
        return self._latest[-1] if self._latest else None

    def add(self, hold: LoopHold) -> None:
        """Count a hold and keep it."""
        with self._lock:
            self._count[hold.cause] += 1
            self._seconds[hold.cause] += hold.seconds
            self._latest.append(hold)
            if self._worst is None or hold.seconds > self._worst.seconds:
                self._worst = hold

    def statistics(self, threshold_seconds: float, steps: int) -> LoopStatistics:
        """Return a frozen snapshot; threshold and steps are what the log itself does not know."""
        with self._lock:
            return LoopStatistics(
                threshold_seconds,
                steps,
                {str(cause): count for cause, count in self._count.items()},
                {str(cause): seconds for cause, seconds in self._seconds.items()},
                self._worst,
                tuple(reversed(self._latest)),
            )
