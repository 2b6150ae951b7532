"""Steps on as many threads as is fastest now (`runtime.step.thread_choice`).  Used on the device thread only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from runtime.step.thread_choice import ThreadChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.step import Segment, StepResult

# Rows of a step whose operations are so short that threads mostly wait for each other.  With more, each has much to
# compute between two barriers, and all threads are used.
FEW_ROWS = 16


class StepThreads:
    """How many threads the operations of this thread's steps use, from the number that they use when this is made."""

    def __init__(self) -> None:
        self._most = self._used = torch.get_num_threads()
        self._choice = ThreadChoice(self._most)

    def run(self, step: Callable[[], StepResult], segments: Sequence[Segment], *, drafting: bool) -> StepResult:
        """Run `step`, which is of `segments`, and learn from how long it takes."""
        rows = sum(len(segment.token_ids) for segment in segments)
        if rows > FEW_ROWS:
            self._use(self._most)
            return step()
        self._use(self._choice.threads)
        started, computing = time.perf_counter(), time.thread_time()
        result = step()
        ended, computing = time.perf_counter(), time.thread_time() - computing
        if all(segment.computed for segment in result.segments):  # or it was cut short, and tells nothing
            self._choice.observe((drafting, rows), ended - started, computing, ended)
        return result

    def _use(self, threads: int) -> None:
        if threads != self._used:
            torch.set_num_threads(threads)
            self._used = threads
