"""I35: a burst goes on only with what its first step had, and while nobody's command waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.events import StepBegins
    from actors.manager.slot_manager import SlotManager
    from runtime.step.step import Segment


class BurstWatch(Observer):
    """Checks I35, as each step of a burst begins on the device.

    Args:
        manager: to be looked at.
        violated: told what does not hold.

    Attributes:
        further: steps of bursts that followed others.
    """

    def __init__(self, manager: SlotManager, violated: Callable[[str], None]) -> None:
        self.further = 0
        self._manager = manager
        self._violated = violated
        self._sequences: dict[int, int] = {}  # the length of each slot's sequence, by what the device was given
        self._is_first = True

    def step_begins(self, event: StepBegins) -> None:
        """Note what the first step has."""
        if not event.drafting:
            self._sequences = {part.slot: part.start for part in event.parts}
            self._is_first = True

    def look(self, segments: Sequence[Segment]) -> None:
        """Check a step of the target that begins on the device."""
        if not self._is_first:
            self.further += 1
            self._check(segments)
        self._is_first = False
        for segment in segments:
            self._sequences[segment.slot] = segment.end

    def _check(self, segments: Sequence[Segment]) -> None:
        if unread := self._manager.unread:
            self._violated(f"I35: a burst goes on with {unread} commands unread")
        if {segment.slot for segment in segments} != set(self._sequences):
            self._violated(f"I35: a burst goes on with slots {[segment.slot for segment in segments]}")
        for segment in segments:
            sample, slot = segment.sample, self._manager.table.slot(segment.slot)
            if segment.mark.at is not None:
                self._violated(f"I35: a burst goes on with slot {slot.id}, whose generation was cancelled")
            if segment.start != self._sequences.get(slot.id) or len(segment.token_ids) != 1 or segment.drafts:
                self._violated(f"I35: a burst goes on with {segment}")
            if sample is None or segment.token_ids[0] in sample.end_ids or sample.masks:
                self._violated(f"I35: a burst goes on behind token {segment.token_ids[0]}: {sample}")
            if segment.end > slot.capacity or segment.origin != slot.origin:
                self._violated(f"I35: a burst goes on at {segment.end} of slot {slot.id}, which has {slot.capacity}")
