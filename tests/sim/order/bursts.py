"""I35: a burst goes on only with what its first step had, and while nobody's command waits.

I36: nobody's slot is granted, left or moved while the device is at a step that names it, or has begun one.
I37: nothing is kept behind the end of an output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from actors.core.events import (
    Emitted,
    Exchanged,
    Granted,
    Preempted,
    Queued,
    Released,
    Resumed,
    StepBegins,
    StepEnded,
    StepRaised,
    TransferBegins,
)
from actors.core.observer import Observer
from actors.core.slot_views import GenerationKey
from actors.manager.slot_manager import SlotManager
from runtime.step.step import Segment


class BurstWatch(Observer):
    """Checks I35 as each step of a burst begins on the device, I36 and I37 as something happens to a slot.

    Args:
        manager: to be looked at.
        violated: told what does not hold.

    Attributes:
        further: steps of bursts that followed others.
        unplanned: times at which one of them had begun when the manager was told of those before.
    """

    def __init__(self, manager: SlotManager, violated: Callable[[str], None]) -> None:
        self.further = 0
        self.unplanned = 0
        self._manager = manager
        self._violated = violated
        self._sequences: dict[int, int] = {}  # the length of each slot's sequence, by what the device was given
        self._is_first = True
        self._goes_on = False  # the device has begun what the manager is about to tell of
        self._in_flight: Collection[int] = ()  # slots
        self._prompts: dict[GenerationKey, int] = {}  # their lengths
        self._outputs: Counter[GenerationKey] = Counter()

    # --- the device ---------------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Note what the first step has."""
        if self._goes_on:
            self._goes_on = False
            return
        self._in_flight = {part.slot for part in event.parts}
        if not event.drafting:
            self._sequences = {part.slot: part.start for part in event.parts}
            self._is_first = True

    def step_ended(self, event: StepEnded) -> None:
        """Note whether the device goes on."""
        self._goes_on = event.result.following is not None
        self.unplanned += self._goes_on
        if not self._goes_on:
            self._in_flight = ()

    def step_raised(self, event: StepRaised) -> None:
        """Note that the device does not go on."""
        self._in_flight = ()

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
            if segment.end > slot.capacity or segment.pages != slot.pages:
                self._violated(f"I35: a burst goes on at {segment.end} of slot {slot.id}, which has {slot.capacity}")

    # --- slots --------------------------------------------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        """Note how long a prompt is."""
        self._prompts[event.key] = event.prompt_tokens

    def emitted(self, event: Emitted) -> None:
        """Note by how much an output has grown."""
        self._outputs[event.key] += event.tokens

    def granted(self, event: Granted) -> None:
        """Check the slot of a grant."""
        self._check_free(event.slot, "granted")

    def resumed(self, event: Resumed) -> None:
        """Check the slot of one that was preempted."""
        self._check_free(event.slot, "granted")

    def preempted(self, event: Preempted) -> None:
        """Check the slot that is left."""
        self._check_free(event.slot, "left")

    def exchanged(self, event: Exchanged) -> None:
        """Check the place that is left, or had again."""
        self._check_free(event.slot, "exchanged")

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check the slots between which KV is moved."""
        for transfer in event.transfers:
            self._check_free(transfer.slot, "moved")

    def released(self, event: Released) -> None:
        """Check the slot, and what is left in it."""
        prompt, output = self._prompts.pop(event.key), self._outputs.pop(event.key, 0)
        if event.slot is None:
            return
        self._check_free(event.slot, "released")
        kept = len(self._manager.table.slot(event.slot).tokens)
        if event.reason is None and kept > prompt + max(0, output - 1):  # the last token was not to be read
            self._violated(f"I37: {kept} tokens are kept of {event.key}, which has {prompt} and {output}")

    def _check_free(self, slot: int, what: str) -> None:
        if slot in self._in_flight:
            self._violated(f"I36: slot {slot} is {what}, and the device is at a step that names it")
