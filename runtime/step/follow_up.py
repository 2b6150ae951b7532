"""The step that anybody could foretell: the same sequences, each one token further.

It is begun where steps run, as soon as the present one has ended, and before anybody has planned it.  If what is then
planned is the same, the step that runs is *adopted*; if not, it is *withdrawn*, and ends at its next layer boundary.
Its rows lie beyond all committed lengths, so one that is withdrawn leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runtime.step.step import CancelMark, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.step.step import StepResult


@dataclass(slots=True, eq=False)
class FollowUp:
    """A step that is to follow another one at once.

    Attributes:
        layer_done: called at the end of each of its layers, where it runs.
        withdrawn: set by whoever does not want it any more.
        segments: what it runs, once the step before it has ended; none if it is not begun.
    """

    layer_done: Callable[[], None] | None = None
    withdrawn: CancelMark = field(default_factory=CancelMark)
    segments: Sequence[Segment] = ()

    @property
    def is_begun(self) -> bool:
        """Whether it runs, or has run."""
        return bool(self.segments)

    def is_same(self, segments: Sequence[Segment]) -> bool:
        """Whether these are the rows that it runs, and nobody has withdrawn it."""
        return (
            self.withdrawn.at is None
            and len(segments) == len(self.segments)
            and all(map(_are_same, self.segments, segments))
        )


def can_be_followed(segment: Segment) -> bool:
    """Whether its sequence's next row is known as soon as its token is: that is drawn freely, after a single row."""
    sample = segment.sample
    return len(segment.token_ids) == 1 and not segment.drafts and sample is not None and not sample.masks


def next_segments(segments: Sequence[Segment], result: StepResult) -> tuple[Segment, ...]:
    """Return the rows that follow those of a step, which can all be followed; none if it was not computed whole.

    Called where steps run, before anybody hears of the result: an actor appends to the context of its `SampleSpec`.
    """
    if not all(one.computed for one in result.segments):
        return ()
    return tuple(
        _followed(segment, one.tokens[0].token_id) for segment, one in zip(segments, result.segments, strict=True)
    )


def _followed(segment: Segment, token_id: int) -> Segment:
    assert segment.sample is not None
    return replace(segment, start=segment.end, token_ids=(token_id,), sample=segment.sample.after((token_id,)))


def _are_same(one: Segment, other: Segment) -> bool:
    return (
        one.mark is other.mark
        and (one.slot, one.origin, one.start, one.first) == (other.slot, other.origin, other.start, other.first)
        and tuple(one.token_ids) == tuple(other.token_ids)
        and one.sample == other.sample
        and not other.drafts
        and other.wanted is None
    )
