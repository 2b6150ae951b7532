"""I23: who was parked has nothing on the device, and goes on where it was; nobody is parked for its equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from actors.parking.victims import MAX_PARKS
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from actors.core.events import (
        Committed,
        Demoted,
        Invalidated,
        Parked,
        Queued,
        Released,
        Resumed,
        StepBegins,
        TransferBegins,
    )
    from actors.core.slot_views import GenerationKey
    from tests.sim.watch import Watch


@dataclass(frozen=True, slots=True)
class Promised:
    """What one that goes on does not have to compute: its first `tokens`, unless KV was found wrong since."""

    tokens: int
    alarms: int


class ParkWatch(Observer):
    """Checks I23, but for the tokens, which are I4's, and for the order, which is I8's.

    Args:
        watch: with the books, which are told of each event before this.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._books = watch.books
        self._manager = watch.manager
        self._violated = watch.violated
        self._priorities: dict[str, int] = {}
        self._parked: dict[GenerationKey, int] = {}  # tokens that it had
        self._promised: dict[GenerationKey, Promised] = {}

    def queued(self, event: Queued) -> None:
        """Note how important it is."""
        self._priorities[event.request_id] = event.priority

    def demoted(self, event: Demoted) -> None:
        """Note that all of it is less important."""
        self._priorities[event.request_id] = event.priority

    def parked(self, event: Parked) -> None:
        """Check for whom, and how often, and that its slot is another's or nobody's."""
        self._parked[event.key] = event.tokens
        self._promised.pop(event.key, None)
        if self._priorities[event.request_id] <= self._priorities[event.by]:
            self._violated(f"I23: {event.key} is parked for {event.by}, who is not more important")
        if event.parks > MAX_PARKS:
            self._violated(f"I23: {event.key} is parked for the {event.parks}th time")
        self._check_nothing_held()

    def resumed(self, event: Resumed) -> None:
        """Note what it has not to compute again: all, if the memory has it."""
        tokens = self._parked.pop(event.key)
        cache, slot = self._manager.cache, self._manager.table.slot(event.slot)
        record = self._manager.holds.get(event.key)
        assert record is not None
        hold, ram = record.hold, cache.tiers.ram
        if hold.kept != tokens:
            self._violated(f"I23: {event.key} had {tokens} tokens when it was parked, and goes on from {hold.kept}")
        missing = [key for key in hold.prompt.keys[: tokens // BLOCK_TOKENS] if key not in ram]
        has_tail = tokens % BLOCK_TOKENS == 0 or (hold.tail is not None and hold.tail.key in ram)
        is_there = len(slot.tokens) >= tokens or (not missing and has_tail)
        if is_there and cache.rings is None and not cache.verdicts.audit_share and self._is_sound():
            self._promised[event.key] = Promised(tokens, cache.verdicts.alarms)

    def committed(self, event: Committed) -> None:
        """Check that nothing is computed that was there."""
        promised = self._promised.get(event.key)
        if event.drafting or promised is None:
            return
        is_sound = promised.alarms == self._manager.cache.verdicts.alarms and self._is_sound()
        if event.start < promised.tokens and is_sound:
            self._violated(f"I23: {event.key} computes {event.start} again, and had {promised.tokens} tokens")
        del self._promised[event.key]

    def invalidated(self, event: Invalidated) -> None:
        """Expect that it is computed again: a step over what was restored has failed, so that is under suspicion."""
        self._promised.pop(event.key, None)

    def released(self, event: Released) -> None:
        """Forget it."""
        self._parked.pop(event.key, None)
        self._promised.pop(event.key, None)

    def step_begins(self, event: StepBegins) -> None:
        """Check that nobody who is parked has anything."""
        self._check_nothing_held()
        for part in event.parts:
            if part.key in self._parked:
                self._violated(f"I23: a step has rows of {part.key}, who is parked")

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check that nobody who is parked has anything."""
        self._check_nothing_held()

    def _check_nothing_held(self) -> None:
        for slot in self._manager.table:
            if slot.owner in self._parked:
                self._violated(f"I23: slot {slot.id} is owned by {slot.owner}, who is parked")

    def _is_sound(self) -> bool:
        """Whether nothing was planned that spoils KV, or a move of it."""
        return not self._watch.chaos.plan.fault and self._watch.invariants.kv_is_exact
