"""The faults of a plan that take Trio: a clock that jumps, crowds, shutdowns, cancels.

    chaos = Chaos(plan)
    async with open_engine(executor, model, config) as engine, open_chaos(engine, chaos):
        ...

A fault that is tied to a step happens while that step runs, so that what it changes is seen inside it.  Everything is
learnt from the engine's events (`actors.core.observer`).
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import trio

from actors.core.events import ActorStage
from actors.core.generation import GenerationRequest
from actors.core.observer import Observer
from runtime.errors import CedeError, DeviceThreadEnded
from runtime.sampling.params import SamplingParams
from runtime.testing.faults import CancelAt, ClockJump, MailboxFlood, Shutdown
from runtime.testing.unreliable import ThreadKilled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    import outcome

    from actors.core.events import StageBegun, StepBegins
    from actors.engine import Engine
    from runtime.step.executor import Executor
    from runtime.step.job import StepJob
    from runtime.step.step import StepResult
    from runtime.step.transfer import KVData, Transfer
    from runtime.testing.faults import Actor, Chaos

# The actor that a plan may name, for each stage of a generation; no fault is tied to the last, LEAVING.
_ACTORS: dict[ActorStage, Actor] = {
    ActorStage.WAITING: "queue",
    ActorStage.RESTORING: "restore",
    ActorStage.FETCHING: "restore",
    ActorStage.PREFILL: "prefill",
    ActorStage.DECODE: "decode",
    ActorStage.DRAFTING: "decode",
}


class UnreliableExecutor:
    """An executor without a thread that is lost as if it had one, where a plan ends that."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def clock(self) -> float:
        """Now, on the inner executor's clock."""
        return self._executor.clock()

    def wall_clock(self) -> float:
        """Now, in seconds since the epoch, as the inner executor has it."""
        return self._executor.wall_clock()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step.

        Raises:
            DeviceThreadEnded: the plan has killed the thread.
        """
        try:
            return await self._executor.run_step(job)
        except ThreadKilled as end:
            raise DeviceThreadEnded(f"the device thread has ended: {end}") from None

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV."""
        return await self._executor.transfer(transfers)

    async def recover(self) -> None:
        """Return once steps can run again."""
        await self._executor.recover()


class JumpingClock(trio.abc.Clock):
    """Real time with jumps, for `trio.run(..., clock=JumpingClock())`."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def jump(self, seconds: float) -> None:
        """Move on by so many seconds at once."""
        self._ahead += seconds

    def start_clock(self) -> None:
        """Do nothing: the clock of the machine runs."""

    def current_time(self) -> float:
        """Seconds, those jumped over included."""
        return time.perf_counter() + self._ahead

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds to sleep until a deadline, if the clock does not jump."""
        return deadline - self.current_time()


@asynccontextmanager
async def open_chaos(
    engine: Engine,
    chaos: Chaos,
    *,
    jump: Callable[[float], None] = lambda seconds: None,
    shut_down: Callable[[], None] | None = None,
) -> AsyncIterator[None]:
    """While the scope lasts, the plan's faults happen to `engine`; those inside a step are up to the model it runs on.

    Args:
        engine: to be observed.
        chaos: the plan under way.
        jump: moves the clock ahead by so many seconds, as `JumpingClock.jump` and `MockClock.jump` do.
        shut_down: tells the server to end; without it the engine is drained.
    """
    async with trio.open_nursery() as nursery:
        steps = FaultsAtSteps(engine, chaos, nursery, jump, shut_down)
        cancels = CancelsAtCheckpoints(engine, chaos)
        with engine.observed_by(steps, cancels), _instrument(cancels) if chaos.plan.of(CancelAt) else nullcontext():
            yield
        nursery.cancel_scope.cancel()


@contextmanager
def _instrument(instrument: trio.abc.Instrument) -> Iterator[None]:
    """Have Trio call it, until the scope ends."""
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        with suppress(KeyError):  # it has raised, and Trio has removed it
            trio.lowlevel.remove_instrument(instrument)


class FaultsAtSteps(Observer):
    """Lets what is due at a step happen while that step runs.

    Args:
        engine, chaos, jump, shut_down: as for `open_chaos`.
        nursery: for what takes time.
    """

    def __init__(
        self,
        engine: Engine,
        chaos: Chaos,
        nursery: trio.Nursery,
        jump: Callable[[float], None],
        shut_down: Callable[[], None] | None,
    ) -> None:
        self._engine = engine
        self._chaos = chaos
        self._nursery = nursery
        self._jump = jump
        self._shut_down = shut_down
        self._told: dict[bool, int] = {}  # the number of the last step, by `drafting`

    def step_begins(self, event: StepBegins) -> None:
        """Begin what is due now, and what was due at steps of a burst since, which were not told of."""
        before = self._told.get(event.drafting, event.number - 1)
        self._told[event.drafting] = event.number
        for number in range(before + 1, event.number + 1):
            self._begin(number, drafting=event.drafting)

    def _begin(self, number: int, *, drafting: bool) -> None:
        chaos, start_soon = self._chaos, self._nursery.start_soon
        for leap in chaos.due_at_step(ClockJump, number, drafting=drafting):
            chaos.fire(leap)
            self._jump(leap.seconds)
        for flood in chaos.due_at_step(MailboxFlood, number, drafting=drafting):
            chaos.fire(flood)
            for client in range(flood.requests):
                start_soon(_come_and_go, self._engine, f"chaos-{len(chaos.fired)}-{client}")
        for end in chaos.due_at_step(Shutdown, number, drafting=drafting):
            chaos.fire(end)
            start_soon(_end, self._engine, end.grace, self._shut_down)


async def _come_and_go(engine: Engine, request_id: str) -> None:
    """A client that hangs up before anything has come; refused or not is all the same to it."""
    asked = GenerationRequest(request_id, ((0,),), SamplingParams(temperature=0.0, seed=0), max_tokens=1)
    with trio.CancelScope() as connection, suppress(CedeError):
        async with engine.open_request(asked):
            connection.cancel()
            await trio.lowlevel.checkpoint()


async def _end(engine: Engine, grace: float, shut_down: Callable[[], None] | None) -> None:
    """Tell the server to end, or drain the engine where there is none."""
    if shut_down is not None:
        shut_down()
    else:
        await engine.drain(grace)


class CancelsAtCheckpoints(Observer, trio.abc.Instrument):
    """Cancels the request whose actor is about to pass the checkpoint that the plan names.

    What its task is at an actor says, as an event.  Its checkpoints lie between the steps that Trio lets it take.
    """

    def __init__(self, engine: Engine, chaos: Chaos) -> None:
        self._engine = engine
        self._chaos = chaos
        self._passed = dict.fromkeys(_ACTORS.values(), 0)
        self._tasks: dict[trio.lowlevel.Task, StageBegun] = {}

    def stage_begun(self, event: StageBegun) -> None:
        """Note what this task is at."""
        self._tasks[trio.lowlevel.current_task()] = event

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a checkpoint, and cancel the request if the plan says so."""
        event = self._tasks.get(task)
        actor = None if event is None else _ACTORS.get(event.stage)
        if event is None or actor is None:
            return
        self._passed[actor] += 1
        for fault in self._chaos.due(CancelAt, self._passed[actor]):
            if fault.actor == actor:
                self._chaos.fire(fault)
                self._engine.cancel(event.request_id)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """Forget a task that is over."""
        self._tasks.pop(task, None)
