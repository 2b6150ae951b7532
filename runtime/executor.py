"""Where steps run: on the device thread, inline, or in virtual time.

The slot manager is the only caller and runs one thing at a time.  All three forms drive the same `run_step`, so what a
test sees in the simulation is the code that serves.  A step runs on the target or, where there is one, on the drafter:
two models with KV of their own for the same slots.  This is the one module of `runtime` that knows Trio.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import outcome
import torch
import trio

from runtime.errors import DeviceLost
from runtime.step import Segment, StepModel, StepResult, run_step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Sequence

    from runtime.transfer import Transfer

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=StepModel[Any])


class Executor(Protocol):
    """Runs steps, one at a time.

    Calls are not cancellable: a step that has begun is awaited to its end, which the segments' marks bring near.
    """

    def clock(self) -> float:
        """Now, in seconds, on the clock that step results and cancel marks use."""

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        """Run one step, on the drafter if `drafting`.

        Raises:
            DeviceLost: the device thread is gone; no step will run again.
            Exception: whatever the model raised.  Nothing of the step may be committed.
        """

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, in this order; one that raises does not keep the others from being tried.

        Raises:
            DeviceLost: as for `run_step`.
        """


class InlineExecutor:
    """Runs each step at once in the caller's task: for unit tests, and for searches over layer boundaries."""

    def __init__(self, model: StepModel[Any], drafter: StepModel[Any] | None = None) -> None:
        self._model = model
        self._drafter = drafter

    def clock(self) -> float:
        return time.perf_counter()

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        await trio.lowlevel.cancel_shielded_checkpoint()
        return _exhaust(run_step(_chosen(self._model, self._drafter, drafting), segments, self.clock))

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        await trio.lowlevel.cancel_shielded_checkpoint()
        return _transfer_all(self._model, transfers)


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

    def clock(self) -> float:
        return trio.current_time()

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        rows = sum(len(segment.token_ids) for segment in segments)
        step = run_step(_chosen(self._model, self._drafter, drafting), segments, self.clock)
        while True:
            try:
                next(step)
            except StopIteration as stop:
                result: StepResult = stop.value
                return result
            with trio.CancelScope(shield=True):
                await trio.sleep(self._layer_seconds(rows))

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        with trio.CancelScope(shield=True):
            await trio.sleep(self._layer_seconds(0) * len(transfers))
        return _transfer_all(self._model, transfers)


class ThreadExecutor(Generic[ModelT]):
    """One dedicated OS thread that runs all torch code of a model (inference mode and streams are thread-local).

    Made by `open_thread_executor`.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="cede-device", daemon=True)
        self.model: ModelT
        self.drafter: StepModel[Any] | None = None

    def clock(self) -> float:
        return time.perf_counter()

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        model = _chosen(self.model, self.drafter, drafting)
        return await self.call(lambda: _exhaust(run_step(model, segments, self.clock)))

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        return await self.call(lambda: _transfer_all(self.model, transfers))

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the device thread and await it to its end."""
        if not self._thread.is_alive():
            raise DeviceLost("the device thread has ended")
        job = _Job(function, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token())
        self._jobs.put(job)
        # No abort: abandoning a running step would leave a thread that writes KV behind nobody's back.
        result: T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return result

    async def start(
        self, load: Callable[[], ModelT], load_drafter: Callable[[ModelT], StepModel[Any] | None] | None
    ) -> None:
        """Start the thread and load the models on it."""
        self._thread.start()
        model = self.model = await self.call(load)
        if load_drafter is not None:
            self.drafter = await self.call(lambda: load_drafter(model))

    async def stop(self) -> None:
        """End the thread once it is idle."""
        self._jobs.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    def _work(self) -> None:
        with torch.inference_mode():
            while (job := self._jobs.get()) is not None:
                job.run()
                del job  # or the last step's tensors would live until the next one


class _Job:
    """A function for the device thread, and the task that waits for it."""

    def __init__(
        self, function: Callable[[], Any], task: trio.lowlevel.Task, trio_token: trio.lowlevel.TrioToken
    ) -> None:
        self._function = function
        self._task = task
        self._trio_token = trio_token

    def run(self) -> None:
        result = outcome.capture(self._function)
        self._trio_token.run_sync_soon(trio.lowlevel.reschedule, self._task, result)


@asynccontextmanager
async def open_thread_executor(
    load: Callable[[], ModelT], load_drafter: Callable[[ModelT], StepModel[Any] | None] | None = None
) -> AsyncIterator[ThreadExecutor[ModelT]]:
    """A device thread that has loaded its model, and a drafter for it if there is to be one; it ends with the context.

    Args:
        load: called on the device thread, as all that follows.
        load_drafter: called with what `load` returned.
    """
    executor: ThreadExecutor[ModelT] = ThreadExecutor()
    try:
        await executor.start(load, load_drafter)
        yield executor
    finally:
        await executor.stop()


def _chosen(model: StepModel[Any], drafter: StepModel[Any] | None, drafting: bool) -> StepModel[Any]:
    if not drafting:
        return model
    assert drafter is not None, "whoever drafts has a drafter"
    return drafter


def _transfer_all(model: StepModel[Any], transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
    return [outcome.capture(model.transfer, transfer) for transfer in transfers]


def _exhaust(step: Generator[None, None, StepResult]) -> StepResult:
    while True:
        try:
            next(step)
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
