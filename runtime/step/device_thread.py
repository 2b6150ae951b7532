"""The OS thread that runs all torch code, and what the event loop knows of it.

Inference mode and streams are thread-local, so one dedicated thread has the device for itself.  It can end, and it can
hang.  Whoever waits for it is told in both cases.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import outcome
import torch
import trio

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded
from runtime.step.executor import attempt

if TYPE_CHECKING:
    from collections.abc import Callable

HANG_CHECKS = 10  # looks at the thread, all without progress, until it is given up

logger = logging.getLogger("cede.engine")

T = TypeVar("T")


class DeviceThread:
    """Runs functions, one at a time and in order, on a thread of its own.

    What it knows of the thread is changed in the event loop only, in the order in which the thread reports it, so there
    is no lock and no race with its end.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_running = False  # the thread has been started, and has not reported that it ends
        self._unfinished: deque[Job[Any]] = deque()  # what the thread is at, and what it will be, awaited or not
        self._hangs = False
        self._progress = 0  # counted by the thread

    @property
    def hangs(self) -> bool:
        """Whether the thread is still at a function that was given up."""
        return self._hangs

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: the system has no thread to give.
        """
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token, self._jobs), name="cede-device", daemon=True)
        thread.start()
        self._thread, self._is_running = thread, True

    async def stop(self) -> None:
        """End the thread once it is idle.  One that hangs is left to end with the process."""
        self._jobs.put(None)
        if not self.hangs:
            await self._join()

    async def call(self, function: Callable[[], T], patience: float = math.inf) -> T:
        """Run `function` on the thread and await it to its end; see `submit` and `wait`."""
        return await self.wait(self.submit(function), patience)

    def submit(self, function: Callable[[], T]) -> Job[T]:
        """Have `function` run on the thread, behind all that was submitted before.

        Raises:
            DeviceThreadEnded: the thread has ended.
            DeviceHangs: the thread is still at something that was given up.
        """
        if self._hangs:
            raise DeviceHangs("the device thread has not come back")
        if not self._is_running:
            raise DeviceThreadEnded("the device thread has ended")
        job = Job(function)
        self._unfinished.append(job)
        self._jobs.put(job)
        return job

    async def wait(self, job: Job[T], patience: float = math.inf) -> T:
        """Await a job to its end, whatever the caller's scope says.

        What it raises is raised here; but what is no Exception, such as SystemExit, ends the thread.

        Args:
            job: that was submitted.
            patience: seconds in which it must end, or report progress.

        Raises:
            DeviceThreadEnded: the thread ended before it did.
            DeviceHangs: there was no progress for `patience` seconds, as far as this process could run.
        """
        progress, checks_without = self._progress, 0
        while not job.ended.is_set():
            # In turns: a time in which this process was stopped, device thread and all, counts as one of them at most.
            # Shielded: a step that nobody awaits any longer would go on writing KV.
            with trio.move_on_after(patience / HANG_CHECKS, shield=True):
                await job.ended.wait()
            checks_without = checks_without + 1 if self._progress == progress else 0
            progress = self._progress
            if checks_without == HANG_CHECKS and not job.ended.is_set():
                self._hangs = True
                raise DeviceHangs(
                    f"no layer of a step has ended for {patience:g} s; the device thread may still write KV, "
                    "so no other takes its place unless it comes back"
                )
        return job.result.unwrap()

    def report_progress(self) -> None:
        """Count one sign of life; for functions that run on the thread."""
        self._progress += 1

    async def recover(self) -> None:
        """Return once a thread can run functions again: when the one that hangs comes back, or by starting another.

        Raises:
            DeviceLost: there can be no other thread.
        """
        if self._unfinished:
            await self._unfinished[-1].ended.wait()
        if not self._is_running:
            await self._join()
            try:
                self.start()
            except RuntimeError as error:
                raise DeviceLost(f"there can be no new device thread: {error}") from error

    async def _join(self) -> None:
        """Wait for the last instructions of a thread that ends."""
        if self._thread is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._thread.join)

    # --- in the event loop: what the thread has reported ------------------------------------------------------------

    def _job_ended(self, result: outcome.Outcome[Any]) -> None:
        job = self._unfinished.popleft()
        job.result = result
        self._hangs &= bool(self._unfinished)
        job.ended.set()

    def _thread_ended(self, end: outcome.Outcome[None]) -> None:
        self._is_running = False
        self._jobs = queue.SimpleQueue()  # another thread does not take up what this one has left
        why = end.error if isinstance(end, outcome.Error) else None
        if why is not None:
            logger.error("the device thread has ended", exc_info=why)
        while self._unfinished:
            self._job_ended(outcome.Error(DeviceThreadEnded(f"the device thread has ended: {why!r}")))

    # --- on the thread ----------------------------------------------------------------------------------------------

    def _work(self, trio_token: trio.lowlevel.TrioToken, jobs: queue.SimpleQueue[Job[Any] | None]) -> None:
        """Work from start to end; the event loop is told of the end, whatever it comes from."""
        end = outcome.capture(self._work_off_jobs, trio_token, jobs)
        with suppress(trio.RunFinishedError):  # the thread had been given up, and returns when nobody is left
            trio_token.run_sync_soon(self._thread_ended, end)

    def _work_off_jobs(self, trio_token: trio.lowlevel.TrioToken, jobs: queue.SimpleQueue[Job[Any] | None]) -> None:
        with torch.inference_mode():
            while (job := jobs.get()) is not None:
                trio_token.run_sync_soon(self._job_ended, attempt(job.function))
                del job  # or the last step's tensors would live until the next one


class Job(Generic[T]):
    """A function for the device thread; its result is there once `ended` is set."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.ended = trio.Event()
        self.result: outcome.Outcome[T]
