"""Executors, where steps run: their interface, and the two that run them in the caller's own task.

The slot manager is the only caller and runs one thing at a time.  All executors drive the same `run_step`, so what a
test sees in the simulation is the code that serves.  A step runs on the target or, where there is one, on the drafter:
two models with KV of their own for the same slots.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import outcome
import trio

from runtime.step.burst import RunningBurst
from runtime.step.step import run_step
from runtime.step.transfer import CopyPage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import torch

    from runtime.step.job import StepJob
    from runtime.step.step import StepModel, StepResult
    from runtime.step.transfer import Transfer

T = TypeVar("T")


class Executor(Protocol):
    """Runs steps, one at a time.

    Calls are not cancellable: a step that has begun is awaited to its end, which the segments' marks bring near.
    """

    def clock(self) -> float:
        """Return the time in seconds, on the clock that step results and cancel marks use."""

    def wall_clock(self) -> float:
        """Return the time in seconds since the epoch, which may be set, as that of `clock` may not."""

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step, or those steps of a burst that are told of at a time.

        Where the result names a job that follows, that one has begun: it is the next one to be given, and awaited here.

        Raises:
            DeviceLost: no step can run now.  Its class says whether any will.
            Exception: whatever the model raised in the step, or in the first of these.  Nothing of it may be committed.
        """

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, in this order; one that raises does not keep the others from being tried.

        Raises:
            DeviceLost: as for `run_step`.
        """

    async def recover(self) -> None:
        """After a loss, return once steps can run again and nothing writes KV any more, which may be never.

        No KV from before the loss may be used.  Unlike the other calls this one can be cancelled.

        Raises:
            DeviceLost: it turns out that they never will.
        """


class InlineExecutor:
    """Runs each step at once in the caller's task: for unit tests, and for searches over layer boundaries."""

    def __init__(self, model: StepModel[Any], drafter: StepModel[Any] | None = None) -> None:
        self._model = model
        self._drafter = drafter

    def clock(self) -> float:
        """Return the time in seconds, as `time.perf_counter` tells it."""
        return time.perf_counter()

    def wall_clock(self) -> float:
        """Return the time in seconds since the epoch."""
        return time.time()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step, or a burst, as `Executor.run_step`."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        model = _choose(self._model, self._drafter, job.drafting)
        running = RunningBurst(job, model)
        while running.segments:
            with running.step():
                step = run_step(model, running.segments, self.clock, ahead=running)
                running.add(run_to_end(step, running.layer_done))
        return running.result()

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, as `Executor.transfer`."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        return transfer_all(self._model, self._drafter, transfers)

    async def recover(self) -> None:
        """Do nothing: there is no thread to be lost."""


class SimulatedExecutor:
    """Spends virtual time per layer, so that under `trio.testing.MockClock` whole schedules run in microseconds.

    Args:
        model: its `finish` must not depend on real time.
        layer_seconds: how long a layer takes, of either model, from the number of rows in the step as it was submitted;
            asked once a layer, after its work is done.
        drafter: as `model`.
    """

    def __init__(
        self,
        model: StepModel[Any],
        layer_seconds: Callable[[int], float],
        drafter: StepModel[Any] | None = None,
    ) -> None:
        self._model = model
        self._drafter = drafter
        self._layer_seconds = layer_seconds
        self._begun: _BegunStep | None = None  # what follows on the last result

    def clock(self) -> float:
        """Return the virtual time in seconds."""
        return trio.current_time()

    def wall_clock(self) -> float:
        """Return the same: virtual time begins with the epoch."""
        return trio.current_time()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step, or a burst, as `Executor.run_step`, and sleep after each layer."""
        model = _choose(self._model, self._drafter, job.drafting)
        step = self._take_begun(job) or self._begin(model, job, RunningBurst(job, model))
        running = step.burst
        running.add(await self._run(step, running.layer_done))
        while running.segments:
            with running.step():
                running.add(await self._run(self._begin(model, job, running), running.layer_done))
        result = running.result()
        if (following := result.following) is not None:
            self._begun = self._begin(model, following, RunningBurst(following, model))
        return result

    def _take_begun(self, job: StepJob) -> _BegunStep | None:
        """The first step of a job that follows; None where it is to begin now."""
        begun = self._begun
        assert begun is None or begun.job is job, "what has begun is to be awaited before all else"
        self._begun = None
        return begun

    def _begin(self, model: StepModel[Any], job: StepJob, burst: RunningBurst) -> _BegunStep:
        rows = sum(len(segment.token_ids) for segment in burst.segments)
        return _BegunStep(job, burst, rows, run_step(model, burst.segments, self.clock, ahead=burst))

    async def _run(self, step: _BegunStep, layer_done: Callable[[], None] | None) -> StepResult:
        while (result := step.result) is None:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._layer_seconds(step.rows))
            if layer_done is not None:
                layer_done()
            step.go_on()
        return result.unwrap()

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, as `Executor.transfer`, after a sleep for each transfer."""
        with trio.CancelScope(shield=True):
            await trio.sleep(self._layer_seconds(0) * len(transfers))
        return transfer_all(self._model, self._drafter, transfers)

    async def recover(self) -> None:
        """Do nothing: there is no thread to be lost."""


class _BegunStep:
    """A step under way, up to the end of a layer whose time has still to pass.

    Attributes:
        job: that it belongs to.
        burst: of these steps.
        rows: in it, as it was submitted.
        result: what became of it, once it has ended, or what it raised.
    """

    def __init__(self, job: StepJob, burst: RunningBurst, rows: int, step: Generator[None, None, StepResult]) -> None:
        self.job = job
        self.burst = burst
        self.rows = rows
        self.result: outcome.Outcome[StepResult] | None = None
        self._step = step
        self.go_on()

    def go_on(self) -> None:
        """Run the next layer, or what is behind the last one."""
        try:
            next(self._step)
        except StopIteration as stop:
            self.result = outcome.Value(stop.value)
        except (Exception, SystemExit) as error:  # raised where the step is awaited; a thread's end is the latter
            self.result = outcome.Error(error)


def run_to_end(step: Generator[None, None, StepResult], *layer_done: Callable[[], None] | None) -> StepResult:
    """Run the rest of `step` on this thread, calling each `layer_done` that is not None at the end of each layer."""
    while True:
        try:
            next(step)
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
        for hook in layer_done:
            if hook is not None:
                hook()


def transfer_all(
    model: StepModel[Any], drafter: StepModel[Any] | None, transfers: Sequence[Transfer]
) -> list[outcome.Outcome[torch.Tensor | None]]:
    """Carry out `transfers` in order, and return what each returned or raised."""
    return [attempt(partial(transfer_one, model, drafter, transfer)) for transfer in transfers]


def transfer_one(model: StepModel[Any], drafter: StepModel[Any] | None, transfer: Transfer) -> torch.Tensor | None:
    """Carry out a transfer of the target's KV, or of a page, which has the drafter's, too; what the target returned."""
    if drafter is not None and isinstance(transfer, CopyPage):
        drafter.transfer(transfer)
    return model.transfer(transfer)


def attempt(function: Callable[[], T]) -> outcome.Outcome[T]:
    """Return what `function` returns or raises; what is no Exception, such as SystemExit, passes through."""
    try:
        return outcome.Value(function())
    except Exception as error:
        return outcome.Error(error)


def _choose(model: StepModel[Any], drafter: StepModel[Any] | None, drafting: bool) -> StepModel[Any]:
    if not drafting:
        return model
    assert drafter is not None, "a drafting step needs a drafter"
    return drafter
