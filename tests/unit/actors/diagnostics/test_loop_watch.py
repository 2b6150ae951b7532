"""Holds of the event loop: judged by invented clocks, and seen on a loop that is really held."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import cast

import pytest
import trio

from actors.diagnostics.loop_holds import LATEST, Cause, HoldLog, LoopHold, cause_of
from actors.diagnostics.loop_watch import LOG_SECONDS, LoopWatch, Watchdog, seconds_starved, watch_loop
from tests.fakes.engine import FakeEngine, as_engine
from web.serving.app import create_app

LOOP, WORKER = 1, 2  # threads


@dataclass
class Times:
    """Clocks that stand still until they are told otherwise."""

    now: float = 100.0
    cpu: float = 0.0
    starved: float = 0.0

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def cpu_clock(self) -> float:
        """Return the processor time of the loop's thread."""
        return self.cpu


class Bench:
    """A watch and its watchdog, and a loop whose steps take as long as a test says."""

    def __init__(self) -> None:
        self.times = Times()
        self.watch = LoopWatch(0.010, clock=self.times.clock, cpu_clock=self.times.cpu_clock)
        frame = inspect.currentframe()
        assert frame is not None
        self.dog = Watchdog(
            self.watch,
            LOOP,
            clock=self.times.clock,
            frames=lambda: {LOOP: frame, WORKER: here(), 3: parked()},
            starved=lambda: self.times.starved,
        )
        self._task = cast("trio.lowlevel.Task", Sleeper())

    def step(self, seconds: float, cpu: float, *, ticks: tuple[float, ...] = ()) -> None:
        """One step, with the watchdog's looks at so many seconds from its beginning."""
        began = self.times.now
        self.watch.before_task_step(self._task)
        for at in ticks:
            self.times.now = began + at
            self.dog.tick()
        self.times.now = began + seconds
        self.times.cpu += cpu
        self.watch.after_task_step(self._task)

    @property
    def holds(self) -> list[LoopHold]:
        """Return what the watch has noted."""
        return list(self.watch.statistics().latest)


class Sleeper:
    """Task, as far as the watch looks at it."""

    name = "a.task"

    def iter_await_frames(self) -> Iterator[tuple[object, int]]:
        """Yield the one frame that it waits in."""
        yield here(), 0


def here() -> FrameType:
    """A frame that is busy in this module."""
    frame = inspect.currentframe()
    assert frame is not None
    return frame


def parked() -> FrameType:
    """A frame in a module in which threads wait for work."""
    frame: FrameType = eval("currentframe()", {"__name__": "queue", "currentframe": inspect.currentframe})
    return frame


@pytest.mark.parametrize(
    ("cpu", "unseen", "cause"),
    [
        (1.0, 0.0, Cause.COMPUTING),
        (1.0, 1.0, Cause.COMPUTING),  # in a C call of its own
        (0.1, 0.1, Cause.COMPUTING),  # in turns with other threads and programs
        (0.1, 0.9, Cause.INTERPRETER),
        (0.001, 0.1, Cause.WAITING),
    ],
)
def test_causes(cpu: float, unseen: float, cause: Cause) -> None:
    assert cause_of(1.0, cpu, unseen, threshold=0.01) is cause


def test_a_short_step_is_counted_and_no_hold() -> None:
    bench = Bench()
    bench.step(0.009, 0.009)
    assert bench.watch.statistics().steps == 1
    assert not bench.holds


def test_a_task_that_computes_is_caught_in_the_act() -> None:
    bench = Bench()
    bench.step(0.030, 0.029, ticks=(0.005, 0.010, 0.015))
    (hold,) = bench.holds
    assert (hold.cause, hold.task) == (Cause.COMPUTING, "a.task")
    assert hold.seconds == pytest.approx(0.030)
    assert hold.where[0].startswith("tests.unit.actors.diagnostics.test_loop_watch.Bench.__init__:")


def test_a_call_that_waits_is_told_from_an_interpreter_that_is_held() -> None:
    bench = Bench()
    bench.step(0.030, 0.0, ticks=(0.005, 0.010))  # the watchdog could run: so could others, but for the loop
    assert bench.holds[0].cause == "waiting"
    bench.dog.tick()
    bench.step(0.030, 0.0, ticks=(0.029,))  # it could not
    assert bench.holds[0].cause == "interpreter"
    assert [place.partition(":")[0] for place in bench.holds[0].others] == [
        "tests.unit.actors.diagnostics.test_loop_watch.here"
    ]


def test_a_hold_that_the_watchdog_missed_says_where_the_task_went_on_to() -> None:
    bench = Bench()
    bench.step(0.030, 0.0)
    (hold,) = bench.holds
    assert hold.cause is Cause.INTERPRETER
    assert hold.where[0].startswith("tests.unit.actors.diagnostics.test_loop_watch.here:")


def test_an_interpreter_held_between_two_steps_is_seen_by_the_watchdog_alone() -> None:
    bench = Bench()
    bench.times.now += 0.005
    bench.dog.tick()
    assert not bench.holds
    bench.times.now += 0.105
    bench.dog.tick()
    (hold,) = bench.holds
    assert (hold.cause, hold.task) == (Cause.INTERPRETER, "")
    assert hold.seconds == pytest.approx(0.1)
    bench.step(0.050, 0.050)  # a tick that is late for a step is that step's
    bench.dog.tick()
    assert len(bench.holds) == 2


def test_a_watchdog_that_had_no_processor_says_nothing_of_the_interpreter() -> None:
    bench = Bench()
    bench.times.now += 0.105
    bench.times.starved += 0.095
    bench.dog.tick()
    assert not bench.holds


def test_what_linux_counts_is_a_number_that_grows() -> None:
    assert 0 <= seconds_starved() <= seconds_starved()


def test_the_log_keeps_counts_the_worst_and_the_latest() -> None:
    log = HoldLog()
    for number in range(LATEST + 4):
        log.add(LoopHold(1.0 if number == 2 else 0.1, 0.0, Cause.WAITING, f"{number}", ()))
    found = log.statistics(0.01, 7)
    assert found.holds == {"computing": 0, "waiting": LATEST + 4, "interpreter": 0}
    assert found.held_seconds["waiting"] == pytest.approx(0.1 * (LATEST + 3) + 1)
    assert found.worst is not None
    assert found.worst.task == "2"
    assert [hold.task for hold in found.latest] == [str(number) for number in range(LATEST + 3, 3, -1)]


def test_the_log_line_is_one_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(5):
        bench.step(0.020, 0.020)
        bench.dog.tick()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the event loop was held for 20 ms (computing) in a.task, at ")
    bench.times.now += LOG_SECONDS
    bench.dog.tick()  # late, and so a hold itself
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("; 5 times since the last such line")


# --- for real -------------------------------------------------------------------------------------------------------


async def test_a_task_that_really_computes() -> None:
    """It goes on until the watchdog has seen it, however long that takes."""

    async def compute(watch: LoopWatch) -> None:
        await trio.lowlevel.checkpoint()
        while watch.sight is None or watch.step is None or watch.sight.step != watch.step.number:
            pass
        await trio.lowlevel.checkpoint()

    watch = LoopWatch(0.005)
    async with trio.open_nursery() as watching:
        await watching.start(watch_loop, watch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compute, watch, name="the one that computes")
        watching.cancel_scope.cancel()
    holds = [hold for hold in watch.statistics().latest if hold.task == "the one that computes"]
    assert holds
    assert any("compute:" in place for hold in holds for place in hold.where)


async def test_a_watch_that_has_ended_sees_nothing_and_leaves_no_thread() -> None:
    before, watch = threading.active_count(), LoopWatch(0.005)
    async with trio.open_nursery() as watching:
        await watching.start(watch_loop, watch)
        await trio.lowlevel.checkpoint()
        watching.cancel_scope.cancel()
    steps = watch.statistics().steps
    await trio.lowlevel.checkpoint()
    assert watch.statistics().steps == steps > 0
    assert threading.active_count() == before


async def test_statistics_show_it_where_there_is_one() -> None:
    watch = LoopWatch(0.25)
    watch.log.add(LoopHold(0.5, 0.4, Cause.COMPUTING, "a.task", ("here:1",)))
    for app, shown in (
        (create_app(as_engine(FakeEngine())), None),
        (create_app(as_engine(FakeEngine()), watch=watch), {"computing": 1, "waiting": 0, "interpreter": 0}),
    ):
        answer = await (await app.test_client().get("/v1/statistics")).get_json()
        assert (shown is None) == ("loop" not in answer)
        if shown is not None:
            assert answer["loop"]["holds"] == shown
            assert answer["loop"]["worst"]["where"] == ["here:1"]
            assert answer["loop"]["threshold_seconds"] == 0.25
