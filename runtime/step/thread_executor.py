"""The executor that serves: steps run on the device thread, beside the event loop."""

from __future__ import annotations

import math
import time
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import torch

from runtime.errors import DeviceLost
from runtime.step.burst import RunningBurst
from runtime.step.device import device_answers
from runtime.step.device_thread import DeviceThread
from runtime.step.executor import run_to_end, transfer_all
from runtime.step.shortcuts import LayersTogether
from runtime.step.step import Segment, StepModel, StepResult, run_step
from runtime.step.thread_tuner import ThreadTuner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractContextManager

    import outcome

    from runtime.step.device_thread import Call
    from runtime.step.job import StepJob
    from runtime.step.transfer import Transfer

# Up to so many rows a step has operations so short that threads mostly wait for each other.  With more rows a thread
# has much to compute between two barriers, and all threads are used.
FEW_ROWS = 16


class StepThreads:
    """Sets how many threads the operations of this thread's steps use: at most as many as when this was made."""

    def __init__(self) -> None:
        self._max = self._used = torch.get_num_threads()
        self._tuner = ThreadTuner(self._max)

    def run(self, step: Callable[[], StepResult], segments: Sequence[Segment], *, drafting: bool) -> StepResult:
        """Run `step`, whose segments are `segments`, and learn from how long it takes."""
        rows = sum(len(segment.token_ids) for segment in segments)
        if rows > FEW_ROWS:
            self._use(self._max)
            return step()
        self._use(self._tuner.threads)
        started, computing = time.perf_counter(), time.thread_time()
        result = step()
        ended, computing = time.perf_counter(), time.thread_time() - computing
        if all(segment.computed for segment in result.segments):  # a step that was cut short tells nothing
            self._tuner.observe((drafting, rows), ended - started, computing, ended)
        return result

    def _use(self, threads: int) -> None:
        if threads != self._used:
            torch.set_num_threads(threads)
            self._used = threads


# From a step's segments to what stands around the step, and gives the segments that it is to run.
Around: TypeAlias = "Callable[[Sequence[Segment]], AbstractContextManager[Sequence[Segment]]]"

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=StepModel[Any])


class ModelWrapper(Protocol):
    """Wraps a model that was loaded, or returns it as it is."""

    def __call__(self, model: StepModel[Any], *, drafting: bool) -> StepModel[Any]:
        """Return what runs the model's steps; `drafting` says that the model is the drafter."""


class ThreadExecutor(Generic[ModelT]):
    """Runs the steps of a model, and of its drafter, on a device thread; made by `open_thread_executor`.

    Attributes:
        model: what was loaded.
    """

    def __init__(
        self, hang_timeout: float | None = None, *, adapt_threads: bool = False, around: Around = nullcontext
    ) -> None:
        self.model: ModelT
        self._models: dict[bool, StepModel[Any]] = {}  # what runs the steps, by `drafting`
        self._patience = math.inf if hang_timeout is None else hang_timeout
        self._thread = DeviceThread()
        self._adapt_threads = adapt_threads
        self._around = around
        self._step_threads: StepThreads | None = None  # used on the device thread only
        self._begun: _Begun | None = None  # what follows on the last result

    def clock(self) -> float:
        """Return the time in seconds, on the clock that step results and cancel marks use."""
        return time.perf_counter()

    def wall_clock(self) -> float:
        """Return the time in seconds since the epoch."""
        return time.time()

    @property
    def hangs(self) -> bool:
        """Return whether the device thread is still at something that nobody awaits any longer."""
        return self._thread.hangs

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step, or a burst, as `Executor.run_step`."""
        begun = self._begun or _Begun(job, self._thread.begin(partial(self._run_job, job)))
        assert begun.job is job, "what has begun is to be awaited before all else"
        self._begun = None
        result, self._begun = await self._thread.wait(begun.call, self._patience)
        return result

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV, as `Executor.transfer`."""
        return await self._thread.call(
            lambda: transfer_all(self._models[False], self._models.get(True), transfers), self._patience
        )

    async def call(self, function: Callable[[], T], patience: float = math.inf) -> T:
        """Run any function on the device thread, as `DeviceThread.call`."""
        return await self._thread.call(function, patience)

    async def recover(self) -> None:
        """Return once steps can run again, as `Executor.recover`."""
        await self._thread.recover()

    async def start(
        self,
        load: Callable[[], ModelT],
        load_drafter: Callable[[ModelT], StepModel[Any] | None] | None,
        wrap: ModelWrapper,
    ) -> None:
        """Start the thread and load the models on it."""
        self._thread.start()
        model = self.model = await self.call(load)
        self._models[False] = wrap(model, drafting=False)
        if self._adapt_threads:
            self._step_threads = await self.call(StepThreads)
        drafter = None if load_drafter is None else await self.call(lambda: load_drafter(model))
        if drafter is not None:
            self._models[True] = wrap(drafter, drafting=True)

    async def stop(self) -> None:
        """End the thread once it is idle.  One that hangs is left to end with the process."""
        await self._thread.stop()

    def _run_job(self, job: StepJob) -> tuple[StepResult, _Begun | None]:
        """Run a job, and have what follows on it run at once; called on the device thread."""
        model = self._models[job.drafting]
        running = RunningBurst(job, model, self._thread.is_heard)
        while running.segments:
            with running.step():
                running.add(self._run(model, running, drafting=job.drafting))
        result = running.result()
        if (following := result.following) is None:
            return result, None
        return result, _Begun(following, self._thread.begin_next(partial(self._run_job, following)))

    def _run(self, model: StepModel[Any], running: RunningBurst, *, drafting: bool) -> StepResult:
        """Run the next step of a burst; called on the device thread."""
        segments, layer_done = running.segments, running.layer_done
        around = nullcontext if drafting else self._around
        try:
            with around(segments) as agreed:
                # Whoever wants to see each layer's end sees it when it comes.
                together = model if layer_done is None and isinstance(model, LayersTogether) else None
                # What the step before gave is told of now: the event loop and the beginning of a step would wait for
                # one another's interpreter lock, but layers need none.
                layers = run_step(model, agreed, self.clock, together, self._thread.tell, running)
                step = partial(run_to_end, layers, self._thread.report_progress, layer_done)
                if self._step_threads is None:
                    return step()
                return self._step_threads.run(step, segments, drafting=drafting)
        except Exception as error:
            if device_answers():
                raise
            raise DeviceLost(f"the device refuses all work until the process ends: {error}") from error


@dataclass(frozen=True, slots=True)
class _Begun:
    """A job that the device thread was given, and the call that runs it."""

    job: StepJob
    call: Call[tuple[StepResult, _Begun | None]]


@asynccontextmanager
async def open_thread_executor(
    load: Callable[[], ModelT],
    load_drafter: Callable[[ModelT], StepModel[Any] | None] | None = None,
    *,
    wrap: ModelWrapper = lambda model, *, drafting: model,
    hang_timeout: float | None = None,
    adapt_threads: bool = False,
    around: Around = nullcontext,
) -> AsyncIterator[ThreadExecutor[ModelT]]:
    """Open an executor whose device thread has loaded a model, and a drafter for it if there is to be one.

    The thread ends with the context.

    Args:
        load: called on the device thread, as all that follows.
        load_drafter: called with what `load` returned; None where nothing drafts.
        wrap: called with each model that was loaded; what it returns runs the steps.
        hang_timeout: seconds in which a layer of a step, or a transfer, must end; None for no limit.
        adapt_threads: use fewer threads than `load` left it while other programs make that faster.
        around: stands around each step of the target, and gives the segments that it is to run.
    """
    executor: ThreadExecutor[ModelT] = ThreadExecutor(hang_timeout, adapt_threads=adapt_threads, around=around)
    try:
        await executor.start(load, load_drafter, wrap)
        yield executor
    finally:
        await executor.stop()
