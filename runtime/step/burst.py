"""A burst: steps of the same sequences that follow one another where they run, without the event loop in between.

A sequence that decodes needs for its next step nothing but the token that the last one drew.  Where a step takes a few
hundred microseconds, what the event loop does between two of them would take as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.step.step import Segment, SegmentResult, StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Burst:
    """How far a burst may go.

    Attributes:
        steps: the most it may have.
        may_go_on: whether nothing has come meanwhile that steps are to wait for; asked before each step but the first,
            where steps run: on the device thread.
    """

    steps: int
    may_go_on: Callable[[], bool]


class RunningBurst:
    """A burst under way: what its next step runs, and what the ones before gave.

    It ends with the step in which a sequence draws a token that ends it, is cancelled, or has numbers that are not
    finite: of that step such a sequence has nothing, so that its next one, in which it is alone or may be, tells.

    Attributes:
        segments: of the next step; empty once it has ended.

    Args:
        segments: of its first step.  More than one step is for segments of a single row each, after which a token is
            drawn that no mask limits.
        burst: how far it may go; None for one step.
    """

    def __init__(self, segments: Sequence[Segment], burst: Burst | None) -> None:
        self.segments = segments
        self._burst = burst
        self._results: list[StepResult] = []
        self._merged: list[SegmentResult] = []

    def add(self, result: StepResult) -> None:
        """Note what a step gave."""
        is_first = not self._results
        self._results.append(result)
        self._merged = list(result.segments) if is_first else list(map(_merged, self._merged, result.segments))
        self.segments = self._next_segments(result)

    def result(self) -> StepResult:
        """Return what all its steps gave, as if they had been one."""
        first, last = self._results[0], self._results[-1]
        return StepResult(
            segments=tuple(self._merged),
            started_at=first.started_at,
            finished_at=last.finished_at,
            layer_ends=tuple(end for result in self._results for end in result.layer_ends),
            steps=len(self._results),
        )

    def _next_segments(self, result: StepResult) -> list[Segment]:
        burst = self._burst
        if burst is None or len(self._results) >= burst.steps:
            return []
        if any(map(_ends, self.segments, result.segments)) or not burst.may_go_on():
            return []
        return list(map(_following, self.segments, result.segments))


def _ends(segment: Segment, result: SegmentResult) -> bool:
    """Whether nothing is to follow on what a step gave for a segment."""
    assert segment.sample is not None, "a burst is of segments after which a token is drawn"
    return not result.tokens or segment.mark.at is not None or result.tokens[-1].token_id in segment.sample.end_ids


def _following(segment: Segment, result: SegmentResult) -> Segment:
    """Return the next row of a segment's sequence: the token that was drawn."""
    assert segment.sample is not None
    drawn = [result.tokens[-1].token_id]
    return replace(segment, start=segment.end, token_ids=drawn, sample=segment.sample.after(drawn))


def _merged(before: SegmentResult, last: SegmentResult) -> SegmentResult:
    """Return what steps gave for a segment, of which the last may not have come to its end."""
    return replace(
        before,
        tokens=before.tokens + last.tokens,
        rows=before.rows + last.rows,
        last_kernel_at=before.last_kernel_at if last.last_kernel_at is None else last.last_kernel_at,
        layers_after_cancel=last.layers_after_cancel,
    )
