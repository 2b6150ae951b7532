"""A burst: steps of the same sequences that follow one another where they run, without the event loop in between.

A sequence that decodes needs for its next step nothing but the token that the last one drew.  So the next step begins
where it runs, while the event loop is told what the one before gave.  Where a step takes a few hundred microseconds the
loop would still be behind, and each of its looks disturb the device: it is told of several steps at a time.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from runtime.errors import DeviceLost
from runtime.step.shortcuts import NextStep
from runtime.step.step import SegmentResult, StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runtime.step.job import StepJob
    from runtime.step.step import Segment

logger = logging.getLogger("cede.engine")


class RunningBurst:
    """Steps of a burst that are told of at a time: what the next one runs, and what the ones before gave.

    A burst ends with the step in which a sequence draws a token that ends it, is cancelled, or has numbers that are not
    finite: of that step such a sequence has nothing, so that its next one, in which it is alone or may be, tells.

    Where the device is given work and finishes it later, the next step begins before the tokens are read that it goes
    on from (`Ahead`).  It is known afterwards whether it was to come; if not, it is dropped.

    Attributes:
        segments: of the next step; empty once these have ended.
        layers_ahead: as of `Ahead`.

    Args:
        job: says how far it may go.  More than one step is for segments of a single row each, after which a token is
            drawn that no mask limits.
        model: runs the steps.
        is_heard: whether all was heard of that has been told; asked before more is begun than these steps.
    """

    def __init__(self, job: StepJob, model: object, is_heard: Callable[[], bool] = lambda: True) -> None:
        self.segments = job.segments
        self.layers_ahead = job.layers_ahead
        self._job = job
        self._model = model if isinstance(model, NextStep) else None
        self._of_next: int | None = None  # layers that the next step has begun with, if it has
        self._is_heard = is_heard
        self._following: StepJob | None = None
        self._results: list[StepResult] = []
        self._merged: list[SegmentResult] = []

    @property
    def layer_done(self) -> Callable[[], None] | None:
        """Function to be called at the end of each layer of the next step; None for nothing."""
        hook, before = self._job.layer_done, self._job.before + len(self._results)
        return None if hook is None else partial(hook, before)

    def begin_next(self, batch: object) -> int:
        """Have the next step begun, if it is likely to come, as `Ahead.begin_next`."""
        self._of_next = None if self._model is None or not self._is_next_likely() else self._model.begin_next(batch)
        return self._of_next or 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Run and `add` the next step in this scope: where it raises, the burst ends with what came before.

        So the step is run again by itself.  It can be: its sequences have all that it went on from, since no step
        writes the state that it reads.

        Raises:
            Exception: what it raised, if it was the first of these, or if the device is lost.
        """
        try:
            yield
        except DeviceLost:
            raise
        except Exception as error:
            if self._of_next is not None and self._model is not None:
                self._model.drop_next()
            if not self._results:
                raise
            logger.warning("a step of a burst failed (%r): it is run again", error)
            self.segments = []
            self._merged = [replace(one, rows=one.rows + 1) for one in self._merged]  # it may have come to any point

    def add(self, result: StepResult) -> None:
        """Note what a step gave."""
        is_first = not self._results
        self._results.append(result)
        self._merged = list(result.segments) if is_first else list(map(_merged, self._merged, result.segments))
        following = self._next_segments(result)
        is_due = bool(following) and self._job.burst is not None and len(self._results) == self._job.burst.steps
        self.segments = [] if is_due else following
        self.layers_ahead, is_begun, self._of_next = self._of_next or 0, self._of_next is not None, None
        if is_due and self._is_heard():
            self._following = self._job.following(following, len(self._results), self.layers_ahead)
        if is_begun and self._model is not None and not self.segments and self._following is None:
            self._model.drop_next()

    def result(self) -> StepResult:
        """Return what these steps gave, as if they had been one, and what follows on them."""
        first, last = self._results[0], self._results[-1]
        return StepResult(
            segments=tuple(self._merged),
            started_at=first.started_at,
            finished_at=last.finished_at,
            layer_ends=tuple(end for result in self._results for end in result.layer_ends),
            steps=len(self._results),
            following=self._following,
        )

    def _is_next_likely(self) -> bool:
        """Return whether a step follows on the one that runs, unless something ends there."""
        burst, steps = self._job.burst, len(self._results) + 1
        if burst is None or steps >= burst.most or not all(map(_needs_no_token, self.segments)):
            return False
        return (steps < burst.steps or self._is_heard()) and burst.may_go_on()

    def _next_segments(self, result: StepResult) -> list[Segment]:
        burst = self._job.burst
        if burst is None or len(self._results) >= burst.most:
            return []
        if any(map(_ends, self.segments, result.segments)) or not burst.may_go_on():
            return []
        pairs = zip(self.segments, result.segments, strict=True)
        return [segment.followed_by(one.tokens[-1].token_id) for segment, one in pairs]


def _ends(segment: Segment, result: SegmentResult) -> bool:
    """Return whether nothing is to follow on what a step gave for a segment."""
    assert segment.sample is not None, "a burst is of segments after which a token is drawn"
    return not result.tokens or segment.mark.at is not None or result.tokens[-1].token_id in segment.sample.end_ids


def _needs_no_token(segment: Segment) -> bool:
    """Return whether a segment is wanted, and its token's distribution is the model's, whatever was drawn before."""
    assert segment.sample is not None, "a burst is of segments after which a token is drawn"
    return segment.mark.at is None and not segment.sample.params.looks_back


def _merged(before: SegmentResult, last: SegmentResult) -> SegmentResult:
    """Return what steps gave for a segment, of which the last may not have come to its end."""
    return replace(
        before,
        tokens=before.tokens + last.tokens,
        rows=before.rows + last.rows,
        last_kernel_at=before.last_kernel_at if last.last_kernel_at is None else last.last_kernel_at,
        layers_after_cancel=last.layers_after_cancel,
    )
