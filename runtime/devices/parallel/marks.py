"""Cancels that all ranks agree on.

A mark is set by the event loop of rank 0's process at any moment, so two ranks, or two looks at it, may see different
things.  What a step goes by instead is a copy that changes only where every rank has been told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.step.step import CancelMark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.step.step import Segment


class AgreedMark(CancelMark):
    """A cancel mark that is set once all ranks drop the same rows at the same layer.

    Args:
        asked: says that somebody wants the cancel.
    """

    __slots__ = ("asked",)

    def __init__(self, asked: CancelMark) -> None:
        super().__init__()
        self.asked = asked

    def agree(self) -> None:
        """Take over what was asked for; the time is that of the asking."""
        if (asked_at := self.asked.at) is not None:
            self.set(lambda: asked_at)


def with_agreed_marks(segments: Sequence[Segment]) -> list[Segment]:
    """Return segments whose marks are those that the ranks agree on: what is cancelled already is dropped at once."""
    agreed = [replace(segment, mark=AgreedMark(segment.mark)) for segment in segments]
    for segment in agreed:
        agree(segment)
    return agreed


def with_asked_marks(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments with the marks that are set by whoever wants the cancel."""
    return [replace(segment, mark=_mark(segment).asked) for segment in segments]


def is_asked(segment: Segment) -> bool:
    """Return whether somebody wants the segment cancelled; rank 0 alone knows."""
    return _mark(segment).asked.at is not None


def agree(segment: Segment) -> None:
    """Take over what was asked for."""
    _mark(segment).agree()


def _mark(segment: Segment) -> AgreedMark:
    assert isinstance(segment.mark, AgreedMark), "a step of several ranks needs marks that they agree on"
    return segment.mark
