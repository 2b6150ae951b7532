"""The OS thread that runs all torch code, and what the event loop knows of it.

Inference mode and streams are thread-local, so one dedicated thread has the device for itself.  It can end, and it can
hang.  Whoever waits for it is told in both cases.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import outcome
import torch
import trio

from runtime.errors import DeviceHangs, DeviceLost, DeviceThreadEnded
from runtime.step.executor import attempt

if TYPE_CHECKING:
    from collections.abc import Callable

JOIN_SECONDS = 1.0  # for the last instructions of a thread that ends
HANG_CHECKS = 10  # looks at the thread, all without progress, until it is given up

logger = logging.getLogger("cede.engine")

T = TypeVar("T")


class DeviceThread:
    """Runs functions, one at a time, on a thread of its own.

    What it knows of the thread is changed in the event loop only, in the order in which the thread reports it, so there
    is no lock and no race with its end.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Call[Any] | None] = queue.SimpleQueue()
        # Known to the thread alone: what it does before it looks at these, and what it has not told of.
        self._next: Call[Any] | None = None
        self._untold: Callable[[], None] | None = None
        self._told = 0  # functions of whose end the thread has told
        self._heard = 0  # those of which the event loop has heard
        self._thread: threading.Thread | None = None
        self._is_running = False  # the thread has been started, and has not reported that it ends
        self._call: Call[Any] | None = None  # what the thread is at, awaited or not
        self._progress = 0  # counted by the thread

    @property
    def hangs(self) -> bool:
        """Return whether the thread is still at a function that nobody awaits any longer."""
        return self._call is not None

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: the system has no thread to give.
        """
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token,), name="cede-device", daemon=True)
        thread.start()
        self._thread, self._is_running = thread, True

    async def stop(self) -> None:
        """End the thread once it is idle.  One that hangs is left to end with the process."""
        self._calls.put(None)
        if not self.hangs:
            await self._join()

    async def call(self, function: Callable[[], T], patience: float = math.inf) -> T:
        """Run `function` on the thread and await it, as `begin` and `wait`."""
        return await self.wait(self.begin(function), patience)

    def begin(self, function: Callable[[], T]) -> Call[T]:
        """Have `function` run on the thread; `wait` for it before the next.

        Raises:
            DeviceThreadEnded: the thread has ended.
            DeviceHangs: it is still at another function.
        """
        if self._call is not None:
            raise DeviceHangs("the device thread has not come back")
        if not self._is_running:
            raise DeviceThreadEnded("the device thread has ended")
        call = self._call = Call(function)
        self._calls.put(call)
        return call

    async def wait(self, call: Call[T], patience: float = math.inf) -> T:
        """Await a function to its end, whatever the caller's scope says.

        What it raises is raised here; but what is no Exception, such as SystemExit, ends the thread.

        Args:
            call: that was begun.
            patience: seconds in which it must end, or report progress.

        Raises:
            DeviceThreadEnded: the thread ended before the function did.
            DeviceHangs: there was no progress for `patience` seconds, as far as this process could run.
        """
        progress, checks_without = self._progress, 0
        while True:
            # In turns: a time in which this process was stopped, device thread and all, counts as one of them at most.
            # Shielded: a step that nobody awaits any longer would go on writing KV.
            with trio.move_on_after(patience / HANG_CHECKS, shield=True):
                await call.ended.wait()
            if call.ended.is_set():
                return call.result.unwrap()
            checks_without = checks_without + 1 if self._progress == progress else 0
            progress = self._progress
            if checks_without == HANG_CHECKS:
                raise DeviceHangs(
                    f"no layer of a step has ended for {patience:g} s; the device thread may still write KV, "
                    "so no other takes its place unless it comes back"
                )

    def begin_next(self, function: Callable[[], T]) -> Call[T]:
        """Have `function` run as soon as the one that calls this has returned, and tell of that one once it runs.

        For functions that run on the thread.
        """
        self._next = call = Call(function)
        return call

    def tell(self) -> None:
        """Let the event loop know that the function before has ended, if it does not; for those that run on the thread.

        It is told at this one's end at the latest.
        """
        untold, self._untold = self._untold, None
        if untold is not None:
            self._told += 1
            untold()

    def is_heard(self) -> bool:
        """Return whether the event loop has heard of all that it was told; for functions that run on the thread."""
        return self._heard == self._told

    def report_progress(self) -> None:
        """Count one sign of life; for functions that run on the thread."""
        self._progress += 1

    async def recover(self) -> None:
        """Return once a thread can run functions again: when the one that hangs comes back, or by starting another.

        Raises:
            DeviceLost: there can be no other thread.
        """
        while self._call is not None:  # what hangs may be followed by another
            await self._call.ended.wait()
        if not self._is_running:
            await self._join()
            try:
                self.start()
            except RuntimeError as error:
                raise DeviceLost(f"there can be no new device thread: {error}") from error

    async def _join(self) -> None:
        """Wait a moment for the last instructions of a thread that ends."""
        if self._thread is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._thread.join, JOIN_SECONDS)
            if self._thread.is_alive():
                logger.warning("the device thread takes long to end, and is left to itself")

    # --- in the event loop: what the thread has reported ------------------------------------------------------------

    def _call_ended(self, call: Call[T], result: outcome.Outcome[T], following: Call[Any] | None) -> None:
        self._heard += 1
        self._call = following
        call.result = result
        call.ended.set()

    def _thread_ended(self, end: outcome.Outcome[None]) -> None:
        self._is_running = False
        why = end.error if isinstance(end, outcome.Error) else None
        if why is not None:
            logger.error("the device thread has ended", exc_info=why)
        if self._call is not None:
            ended = DeviceThreadEnded(f"the device thread has ended: {why!r}")
            self._told += 1
            self._call_ended(self._call, outcome.Error(ended), None)

    # --- on the thread ----------------------------------------------------------------------------------------------

    def _work(self, trio_token: trio.lowlevel.TrioToken) -> None:
        """Work from start to end; the event loop is told of the end, whatever it comes from."""
        end = outcome.capture(self._work_off_calls, trio_token)
        with suppress(trio.RunFinishedError):  # the thread had been given up, and returns when nobody is left
            self.tell()
            trio_token.run_sync_soon(self._thread_ended, end)

    def _work_off_calls(self, trio_token: trio.lowlevel.TrioToken) -> None:
        with torch.inference_mode():
            while (call := self._next or self._calls.get()) is not None:
                self._next = None
                result = attempt(call.function)
                self.tell()
                self._untold = partial(trio_token.run_sync_soon, self._call_ended, call, result, self._next)
                if self._next is None:
                    self.tell()
                del call, result  # or the last step's tensors would live until the next one


class Call(Generic[T]):
    """A function for the device thread; its result is there once `ended` is set."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.ended = trio.Event()
        self.result: outcome.Outcome[T]
