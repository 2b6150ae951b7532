"""Executors to be tested, and a gate that holds their device thread in the middle of a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import trio

from runtime.step.step import Segment
from runtime.step.thread_executor import ThreadExecutor, open_thread_executor
from tests.models.step_driver import RecordingModel, greedy, pages_of

PATIENCE = 600  # seconds, spent by a test that fails only


def segments_of(count: int = 3) -> list[Segment]:
    """Return so many segments of two tokens, each in a slot of its own."""
    return [Segment(slot, 0, [slot, 7], sample=greedy(2), pages=pages_of(slot, 8)) for slot in range(count)]


def thread_executor(model: RecordingModel) -> AbstractAsyncContextManager[ThreadExecutor[RecordingModel]]:
    """Open an executor whose thread runs this model."""
    return open_thread_executor(lambda: model)


def raising(*errors: BaseException) -> Callable[[int], None]:
    """For `during`: raises each of these once, one in a step."""
    left = iter(errors)

    def during(index: int) -> None:
        if (error := next(left, None)) is not None:
            raise error

    return during


class Gate:
    """Holds the device thread in one layer until the Trio side lets it go on."""

    def __init__(self, layer: int) -> None:
        self.entered = trio.Event()
        self._layer = layer
        self._opened = threading.Event()
        self._trio_token = trio.lowlevel.current_trio_token()

    def during(self, index: int) -> None:
        """Wait in the layer that was chosen."""
        if index == self._layer:
            self._trio_token.run_sync_soon(self.entered.set)
            assert self._opened.wait(PATIENCE)

    def open(self) -> None:
        """Let the thread go on."""
        self._opened.set()


def device_threads() -> list[threading.Thread]:
    """Return the device threads of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "cede-device"]
