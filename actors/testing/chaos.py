"""The faults of a plan that take Trio: a clock that jumps, crowds, shutdowns, cancels.

    chaos = Chaos(plan)
    executor = UnreliableExecutor(executor, chaos)
    async with open_engine(executor, model, config) as engine, open_chaos(engine, executor):
        ...

A fault that is tied to a step happens while that step runs, so that what it changes is seen inside it.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.core.generation import GenerationRequest
from runtime.errors import CedeError, DeviceThreadEnded
from runtime.sampling.params import SamplingParams
from runtime.testing.faults import CancelAt, ClockJump, MailboxFlood, Shutdown
from runtime.testing.unreliable import ThreadKilled

if TYPE_CHECKING:
    import types
    from collections.abc import AsyncIterator, Callable, Sequence

    import outcome

    from actors.core.lease import Lease
    from actors.engine import Engine
    from runtime.step.executor import Executor, LayerHook
    from runtime.step.step import Segment, StepResult
    from runtime.step.transfer import KVData, Transfer
    from runtime.testing.faults import Actor, Chaos

# Which function an actor is in: that of the innermost of these that its task awaits.
_ACTORS: dict[str, Actor] = {
    "_wait_for_grant": "queue",
    "restore": "restore",
    "prefill": "prefill",
    "decode": "decode",
}


class UnreliableExecutor:
    """An executor that tells `open_chaos` which step is running; and one without a thread is lost as if it had one."""

    def __init__(self, executor: Executor, chaos: Chaos) -> None:
        self.chaos = chaos
        self.in_step: Callable[[int, bool], None] = lambda step, drafting: None
        self._executor = executor
        self._steps = {False: 0, True: 0}

    def clock(self) -> float:
        return self._executor.clock()

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        self._steps[drafting] += 1
        self.in_step(self._steps[drafting], drafting)
        try:
            return await self._executor.run_step(segments, drafting=drafting, layer_done=layer_done)
        except ThreadKilled as end:
            raise DeviceThreadEnded(f"the device thread has ended: {end}") from None

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        return await self._executor.transfer(transfers)

    async def recover(self) -> None:
        await self._executor.recover()


class JumpingClock(trio.abc.Clock):
    """Real time with jumps, for `trio.run(..., clock=JumpingClock())`."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def jump(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._ahead += seconds

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return time.perf_counter() + self._ahead

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


@asynccontextmanager
async def open_chaos(
    engine: Engine,
    executor: UnreliableExecutor,
    *,
    jump: Callable[[float], None] = lambda seconds: None,
    shut_down: Callable[[], None] | None = None,
) -> AsyncIterator[None]:
    """While the scope lasts, the plan's faults happen to `engine`, which runs on `executor`.

    Args:
        jump: moves the clock ahead by so many seconds, as `JumpingClock.jump` and `MockClock.jump` do.
        shut_down: tells the server to end; without it the engine is drained.
    """
    chaos = executor.chaos
    async with trio.open_nursery() as nursery:

        def in_step(step: int, drafting: bool) -> None:
            for leap in chaos.due_at_step(ClockJump, step, drafting=drafting):
                chaos.fire(leap)
                jump(leap.seconds)
            for flood in chaos.due_at_step(MailboxFlood, step, drafting=drafting):
                chaos.fire(flood)
                for number in range(flood.requests):
                    nursery.start_soon(_come_and_go, engine, f"chaos-{len(chaos.fired)}-{number}")
            for end in chaos.due_at_step(Shutdown, step, drafting=drafting):
                chaos.fire(end)
                nursery.start_soon(partial(_shut_down, engine, end.grace, shut_down))

        executor.in_step = in_step
        cancels = CancelsAtCheckpoints(engine, chaos)
        if chaos.plan.of(CancelAt):
            trio.lowlevel.add_instrument(cancels)
        try:
            yield
        finally:
            executor.in_step = lambda step, drafting: None
            with suppress(KeyError):
                trio.lowlevel.remove_instrument(cancels)
            nursery.cancel_scope.cancel()


async def _come_and_go(engine: Engine, request_id: str) -> None:
    """A client that hangs up before anything has come; refused or not is all the same to it."""
    asked = GenerationRequest(request_id, ((0,),), SamplingParams(temperature=0.0, seed=0), max_tokens=1)
    with trio.CancelScope() as connection, suppress(CedeError):
        async with engine.open_request(asked):
            connection.cancel()
            await trio.lowlevel.checkpoint()


async def _shut_down(engine: Engine, grace: float, shut_down: Callable[[], None] | None) -> None:
    if shut_down is not None:
        shut_down()
    else:
        await engine.drain(grace)


class CancelsAtCheckpoints(trio.abc.Instrument):
    """Cancels the request whose actor is about to pass the checkpoint that the plan names.

    Which actor a task is in, and for which lease, is read from the frames that it waits in: the actors know nothing of
    this.
    """

    def __init__(self, engine: Engine, chaos: Chaos) -> None:
        self._engine = engine
        self._chaos = chaos
        self._passed = dict.fromkeys(_ACTORS.values(), 0)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not task.name.endswith("Request._generate"):
            return
        actor, lease = _what_runs(task)
        if actor is None:
            return
        self._passed[actor] += 1
        for fault in self._chaos.due(CancelAt, self._passed[actor]):
            if fault.actor == actor:
                self._chaos.fire(fault)
                self._engine.cancel(lease.request_id)


def _what_runs(task: trio.lowlevel.Task) -> tuple[Actor | None, Lease]:
    frames = [frame for frame, _ in task.iter_await_frames()]
    actors = [_ACTORS[frame.f_code.co_name] for frame in frames if frame.f_code.co_name in _ACTORS and _is_ours(frame)]
    lease: Lease = frames[0].f_locals["lease"]
    return actors[-1] if actors else None, lease


def _is_ours(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("actors.")
