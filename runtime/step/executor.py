"""Where steps run: on the device thread, inline, or in virtual time.

The slot manager is the only caller and runs one thing at a time.  All three forms drive the same `run_step`, so what a
test sees in the simulation is the code that serves.  A step runs on the target or, where there is one, on the drafter:
two models with KV of their own for the same slots.  This is the one module of `runtime` that knows Trio.

A device thread can end, and it can hang.  Whoever waits for it is told in both cases.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import outcome
import torch
import trio

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded
from runtime.step.device import device_answers
from runtime.step.step import Segment, StepModel, StepResult, run_step
from runtime.step.threads import StepThreads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Sequence

    from runtime.step.transfer import Transfer

TURNS = 10  # looks at the thread until it is given up

logger = logging.getLogger("cede.engine")

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=StepModel[Any])

LayerHook: TypeAlias = "Callable[[], None]"


class ModelFitting(Protocol):
    """Puts something around a model that was loaded, or nothing."""

    def __call__(self, model: StepModel[Any], *, drafting: bool) -> StepModel[Any]:
        """Return what runs the model's steps."""


class Executor(Protocol):
    """Runs steps, one at a time.

    Calls are not cancellable: a step that has begun is awaited to its end, which the segments' marks bring near.
    """

    def clock(self) -> float:
        """Now, in seconds, on the clock that step results and cancel marks use."""

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        """Run one step, on the drafter if `drafting`.

        Args:
            layer_done: called at the end of each layer, where the step runs: on the device thread, or in this task.

        Raises:
            DeviceLost: no step can run now.  Its class says whether any will.
            Exception: whatever the model raised.  Nothing of the step may be committed.
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
        return time.perf_counter()

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        await trio.lowlevel.cancel_shielded_checkpoint()
        return _exhaust(run_step(_chosen(self._model, self._drafter, drafting), segments, self.clock), layer_done)

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        await trio.lowlevel.cancel_shielded_checkpoint()
        return _transfer_all(self._model, transfers)

    async def recover(self) -> None:
        """There is no thread to be lost."""


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

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
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
            if layer_done is not None:
                layer_done()

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        with trio.CancelScope(shield=True):
            await trio.sleep(self._layer_seconds(0) * len(transfers))
        return _transfer_all(self._model, transfers)

    async def recover(self) -> None:
        """There is no thread to be lost."""


class ThreadExecutor(Generic[ModelT]):
    """One dedicated OS thread that runs all torch code of a model (inference mode and streams are thread-local).

    Made by `open_thread_executor`.  What it knows of the thread is changed in the event loop only, in the order in
    which the thread says it, so there is no lock and no race with its end.
    """

    def __init__(self, hang_timeout: float | None = None, *, adapt_threads: bool = False) -> None:
        self.model: ModelT
        self._models: dict[bool, StepModel[Any]] = {}  # what runs the steps, by `drafting`
        self._patience = math.inf if hang_timeout is None else hang_timeout
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_working = False  # the thread has been started, and has not said that it ends
        self._job: _Job[Any] | None = None  # what the thread is at, awaited or not
        self._signs_of_life = 0  # counted by the thread
        self._adapt_threads = adapt_threads
        self._threads: StepThreads | None = None  # the thread's own

    def clock(self) -> float:
        return time.perf_counter()

    @property
    def hangs(self) -> bool:
        """Whether the thread is still at something that nobody awaits any longer."""
        return self._job is not None

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        model = self._models[drafting]
        return await self.call(lambda: self._run(model, segments, drafting, layer_done), self._patience)

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        return await self.call(lambda: _transfer_all(self._models[False], transfers), self._patience)

    async def call(self, function: Callable[[], T], patience: float = math.inf) -> T:
        """Run `function` on the device thread and await it to its end, whatever the caller's scope says.

        What it raises is raised here; but what is no Exception, such as SystemExit, ends the thread.

        Raises:
            DeviceThreadEnded: before or while it ran.
            DeviceHangs: no layer has ended for `patience` seconds, as far as this process could run.
        """
        if self._job is not None:
            raise DeviceHangs("the device thread has not come back")
        if not self._is_working:
            raise DeviceThreadEnded("the device thread has ended")
        signs, quiet = self._signs_of_life, 0
        job = self._job = _Job(function)
        self._jobs.put(job)
        while not job.ended.is_set():
            # In turns: a time in which this process was stopped, device thread and all, is one of them at most.
            # Shielded: an abandoned step would be a thread that writes KV behind everybody's back.
            with trio.move_on_after(patience / TURNS, shield=True):
                await job.ended.wait()
            quiet = quiet + 1 if self._signs_of_life == signs else 0
            signs = self._signs_of_life
            if quiet == TURNS and not job.ended.is_set():
                raise DeviceHangs(
                    f"no layer of a step has ended for {patience:g} s; the device thread may still write KV, "
                    "so no other takes its place unless it comes back"
                )
        result: T = job.result.unwrap()
        return result

    async def recover(self) -> None:
        if self._job is not None:
            await self._job.ended.wait()
        if not self._is_working:
            await self._join()
            try:
                self._start_thread()
            except RuntimeError as error:
                raise DeviceLost(f"there can be no new device thread: {error}") from error

    async def start(
        self,
        load: Callable[[], ModelT],
        load_drafter: Callable[[ModelT], StepModel[Any] | None] | None,
        fit: ModelFitting,
    ) -> None:
        """Start the thread and load the models on it."""
        self._start_thread()
        model = self.model = await self.call(load)
        self._models[False] = fit(model, drafting=False)
        if self._adapt_threads:
            self._threads = await self.call(StepThreads)
        drafter = None if load_drafter is None else await self.call(lambda: load_drafter(model))
        if drafter is not None:
            self._models[True] = fit(drafter, drafting=True)

    async def stop(self) -> None:
        """End the thread once it is idle.  One that hangs is left to end with the process."""
        self._jobs.put(None)
        if not self.hangs:
            await self._join()

    async def _join(self) -> None:
        """Wait for the last instructions of a thread that ends."""
        if self._thread is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._thread.join)

    def _start_thread(self) -> None:
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token,), name="cede-device", daemon=True)
        thread.start()
        self._thread, self._is_working = thread, True

    # --- what the thread has said ---------------------------------------------------------------------------------

    def _answered(self, job: _Job[T], result: outcome.Outcome[T]) -> None:
        self._job = None
        job.result = result
        job.ended.set()

    def _thread_ended(self, end: outcome.Outcome[None]) -> None:
        self._is_working = False
        why = end.error if isinstance(end, outcome.Error) else None
        if why is not None:
            logger.error("the device thread has ended", exc_info=why)
        if self._job is not None:
            self._answered(self._job, outcome.Error(DeviceThreadEnded(f"the device thread has ended: {why!r}")))

    # --- on the thread --------------------------------------------------------------------------------------------

    def _work(self, trio_token: trio.lowlevel.TrioToken) -> None:
        """The thread from start to end, which is told whatever it comes from."""
        end = outcome.capture(self._work_off_jobs, trio_token)
        with suppress(trio.RunFinishedError):  # it had been given up, and returns when nobody is left
            trio_token.run_sync_soon(self._thread_ended, end)

    def _work_off_jobs(self, trio_token: trio.lowlevel.TrioToken) -> None:
        with torch.inference_mode():
            while (job := self._jobs.get()) is not None:
                trio_token.run_sync_soon(self._answered, job, job.run())
                del job  # or the last step's tensors would live until the next one

    def _run(
        self, model: StepModel[Any], segments: Sequence[Segment], drafting: bool, layer_done: LayerHook | None
    ) -> StepResult:
        step = partial(_exhaust, run_step(model, segments, self.clock), layer_done, self._count_layer)
        try:
            return step() if self._threads is None else self._threads.run(step, segments, drafting=drafting)
        except Exception as error:
            if device_answers():
                raise
            raise DeviceLost(f"the device refuses all work until the process ends: {error}") from error

    def _count_layer(self) -> None:
        self._signs_of_life += 1


class _Job(Generic[T]):
    """A function for the device thread; its result is there once `ended` is set."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.ended = trio.Event()
        self.result: outcome.Outcome[T]
        self._function = function

    def run(self) -> outcome.Outcome[T]:
        return _attempt(self._function)


@asynccontextmanager
async def open_thread_executor(
    load: Callable[[], ModelT],
    load_drafter: Callable[[ModelT], StepModel[Any] | None] | None = None,
    *,
    fit: ModelFitting = lambda model, *, drafting: model,
    hang_timeout: float | None = None,
    adapt_threads: bool = False,
) -> AsyncIterator[ThreadExecutor[ModelT]]:
    """A device thread that has loaded its model, and a drafter for it if there is to be one; it ends with the context.

    Args:
        load: called on the device thread, as all that follows.
        load_drafter: called with what `load` returned.
        fit: called with each model that was loaded; what it returns runs the steps.
        hang_timeout: seconds in which a layer of a step, or a transfer, must end; None for no limit.
        adapt_threads: use fewer threads than `load` left it while other programs make that faster.
    """
    executor: ThreadExecutor[ModelT] = ThreadExecutor(hang_timeout, adapt_threads=adapt_threads)
    try:
        await executor.start(load, load_drafter, fit)
        yield executor
    finally:
        await executor.stop()


def _chosen(model: StepModel[Any], drafter: StepModel[Any] | None, drafting: bool) -> StepModel[Any]:
    if not drafting:
        return model
    assert drafter is not None, "whoever drafts has a drafter"
    return drafter


def _transfer_all(model: StepModel[Any], transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
    return [_attempt(partial(model.transfer, transfer)) for transfer in transfers]


def _attempt(function: Callable[[], T]) -> outcome.Outcome[T]:
    """What it returns or raises, but for what ends the thread."""
    try:
        return outcome.Value(function())
    except Exception as error:
        return outcome.Error(error)


def _exhaust(
    step: Generator[None, None, StepResult], layer_done: LayerHook | None, count: Callable[[], None] = lambda: None
) -> StepResult:
    while True:
        try:
            next(step)
        except StopIteration as stop:
            result: StepResult = stop.value
            return result
        count()
        if layer_done is not None:
            layer_done()
