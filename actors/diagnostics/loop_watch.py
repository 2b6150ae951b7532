"""An instrument that says who held the event loop.

Everybody's tokens go through one event loop.  A step of a task that computes for long, or waits in a call that is not
Trio's, stops them all; so does a worker thread in a C call that keeps the interpreter to itself.  Two look for that:

- `LoopWatch`, in the loop's thread, measures each step of a task, by the clock and by the processor's time.
- `Watchdog`, in a thread of its own, looks every half threshold whether a step is under way for too long, and if so,
  where it is.  If it could not look in time itself, the interpreter was held.  Where a C call does not let go of it,
  the watchdog comes when that returns, and sees the line of the call.

`watch_loop` has both at work while it runs.  Then a step costs about a microsecond more; otherwise nothing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.diagnostics.loop_holds import Cause, HoldLog, LoopHold, LoopStatistics, cause_of
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

logger = logging.getLogger("cede.loop")

OURS = ("runtime", "actors", "web")  # packages whose functions say more than those of the libraries that they call
IDLE = ("threading", "queue", "trio._core._thread_cache")  # modules in which a thread waits for work
SHOWN = 3  # functions of a stack
END_SECONDS = 1.0  # that the end waits for the watching thread
LOG_SECONDS = 10.0  # from one line in the log to the next


@dataclass(frozen=True, slots=True)
class Step:
    """A task's step that is under way; `began` and `cpu_began` are in seconds of the watch's two clocks."""

    number: int
    task: str
    began: float
    cpu_began: float


@dataclass(frozen=True, slots=True)
class Sight:
    """Snapshot of a step by the watchdog: where it and the other threads were, and how many seconds late it came."""

    step: int
    where: tuple[str, ...]
    others: tuple[str, ...]
    late: float


class LoopWatch(trio.abc.Instrument):
    """Measures the steps of all tasks.

    Its methods run in the loop's thread.  `step` and `sight` are each written by one thread and read by the other; both
    are whole, frozen objects.

    Args:
        threshold: seconds from which on a step is a hold.
        clock, cpu_clock: seconds, and seconds of the calling thread on a processor; for tests.
    """

    def __init__(
        self,
        threshold: float,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.threshold = threshold
        self.log = HoldLog()
        self.step: Step | None = None
        self.sight: Sight | None = None  # the watchdog's to write
        self._steps = 0
        self._clock = clock
        self._cpu_clock = cpu_clock

    def statistics(self) -> LoopStatistics:
        """Return a frozen snapshot."""
        return self.log.statistics(self.threshold, self._steps)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note when a task's step begins (Trio calls this)."""
        self._steps += 1
        self.step = Step(self._steps, task.name, self._clock(), self._cpu_clock())

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Measure the step that has ended, and keep it if it was a hold (Trio calls this)."""
        step, self.step = self.step, None
        if step is None:  # the watch began in this very step
            return
        seconds = self._clock() - step.began
        if seconds >= self.threshold:
            self._note(step, seconds, self._cpu_clock() - step.cpu_began, task)

    def _note(self, step: Step, seconds: float, cpu_seconds: float, task: trio.lowlevel.Task) -> None:
        sight = self.sight if self.sight is not None and self.sight.step == step.number else None
        if sight is None:  # nobody could look
            sight = Sight(step.number, _awaited(task), (), seconds)
        cause = cause_of(seconds, cpu_seconds, sight.late, self.threshold)
        others = sight.others if cause is Cause.INTERPRETER else ()
        self.log.add(LoopHold(seconds, cpu_seconds, cause, step.task, sight.where, others))


class Watchdog:
    """Looks at the loop from another thread, whenever `tick` is called.

    Args:
        watch: whose steps to look at.
        loop_thread: the loop's, by `threading.get_ident()`.
        clock: that of the watch.
        frames: what each thread is running.
        starved: seconds for which the calling thread has had no processor, though it could have run; to date.
    """

    def __init__(
        self,
        watch: LoopWatch,
        loop_thread: int,
        *,
        clock: Callable[[], float] = time.perf_counter,
        frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
        starved: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.period = watch.threshold / 2  # seconds between two ticks
        self._watch = watch
        self._loop_thread = loop_thread
        self._clock = clock
        self._frames = frames
        self._starved = starved
        self._starved_before = 0.0
        self._last = clock()
        self._holds = 0  # that had been noted at the last tick
        self._logged_at = float("-inf")
        self._logged = 0  # holds that a line in the log has told of

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set."""
        self._starved_before = self._starved()
        while not stop.wait(self.period):
            self.tick()

    def tick(self) -> None:
        """Look once."""
        now, step, starved = self._clock(), self._watch.step, self._starved()
        late = now - self._last - self.period - (starved - self._starved_before)
        noted, self._holds = self._watch.log.total - self._holds, self._watch.log.total
        if step is not None and now - step.began >= self._watch.threshold:
            if self._watch.sight is None or self._watch.sight.step != step.number:
                self._see(step, late)
        elif late >= self._watch.threshold and not noted:  # nobody's step: the loop was kept from its next one
            self._watch.log.add(LoopHold(late, 0.0, Cause.INTERPRETER, "", (), self._others()))
        self._report(now)
        self._last, self._starved_before = self._clock(), starved

    def _see(self, step: Step, late: float) -> None:
        frame = self._frames().get(self._loop_thread)
        where = _shown(_outwards(frame)) if frame is not None else ()
        self._watch.sight = Sight(step.number, where, self._others(), late)

    def _others(self) -> tuple[str, ...]:
        """Return where each of the other threads is, but for those that wait for work."""
        apart = {self._loop_thread, threading.get_ident()}
        busy = [frame for thread, frame in self._frames().items() if thread not in apart]
        return tuple(_place(frame) for frame in busy if frame.f_globals.get("__name__") not in IDLE)

    def _report(self, now: float) -> None:
        total, newest = self._watch.log.total, self._watch.log.latest
        if newest is None or total == self._logged or now - self._logged_at < LOG_SECONDS:
            return
        logger.warning(
            "the event loop was held for %s; %s since the last such line", newest, counted(total - self._logged, "time")
        )
        self._logged, self._logged_at = total, now


def seconds_starved() -> float:
    """Seconds for which the calling thread has waited for a processor, as Linux counts them; 0 on other systems.

    A thread that waits for the interpreter sleeps, and is not among those that wait for a processor.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


async def watch_loop(watch: LoopWatch, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Watch this event loop until cancelled."""
    stop = threading.Event()
    watchdog = Watchdog(watch, threading.get_ident(), starved=seconds_starved)
    thread = threading.Thread(target=watchdog.run, args=(stop,), name="loop watchdog", daemon=True)
    trio.lowlevel.add_instrument(watch)
    thread.start()
    try:
        task_status.started()
        await trio.sleep_forever()
    finally:
        stop.set()
        thread.join(END_SECONDS)  # it has at most one look before it, unless a disk with sources hangs
        trio.lowlevel.remove_instrument(watch)


# --- places in the code -----------------------------------------------------------------------------------------------


def _awaited(task: trio.lowlevel.Task) -> tuple[str, ...]:
    """Return where a task is that has ended its step: what and who waits; nothing where it has ended."""
    return _shown(reversed([frame for frame, _ in task.iter_await_frames()]))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _shown(frames: Iterator[FrameType]) -> tuple[str, ...]:
    """The innermost function, and the innermost of ours."""
    shown: list[str] = []
    for frame in frames:
        is_ours = str(frame.f_globals.get("__name__")).partition(".")[0] in OURS
        if not shown or is_ours:
            shown.append(_place(frame))
        if len(shown) == SHOWN:
            break
    return tuple(shown)


def _place(frame: FrameType) -> str:
    """`runtime.text.tokenizer.Tokenizer.encode:88`."""
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}:{frame.f_lineno}"
