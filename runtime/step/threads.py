"""Steps on as many CPU threads as is fastest now (`runtime.step.thread_tuner`); used on the device thread only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from runtime.step.thread_tuner import ThreadTuner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.step import Segment, StepResult

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
