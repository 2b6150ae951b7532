"""I23: who was preempted has nothing on the device, and goes on where it was; nobody is preempted for its equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from actors.scheduling.victims import MAX_PREEMPTIONS
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from actors.core.events import (
        Committed,
        Demoted,
        Invalidated,
        Preempted,
        Queued,
        Released,
        Resumed,
        StepBegins,
        TransferBegins,
    )
    from actors.core.slot_views import GenerationKey
    from tests.sim.watch import Watch


@dataclass(frozen=True, slots=True)
class Expected:
    """Tokens that one that goes on does not have to compute: its first `tokens`, unless KV was found wrong since."""

    tokens: int
    alarms: int


class PreemptionWatch(Observer):
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
        self._preempted: dict[GenerationKey, int] = {}  # tokens that it had
        self._expected: dict[GenerationKey, Expected] = {}

    def queued(self, event: Queued) -> None:
        """Note how important it is."""
        self._priorities[event.request_id] = event.priority

    def demoted(self, event: Demoted) -> None:
        """Note that all of it is less important."""
        self._priorities[event.request_id] = event.priority

    def preempted(self, event: Preempted) -> None:
        """Check for whom, and how often, and that its slot is another's or nobody's."""
        self._preempted[event.key] = event.tokens
        self._expected.pop(event.key, None)
        if event.by is not None and self._priorities[event.request_id] <= self._priorities[event.by]:
            self._violated(f"I23: {event.key} is preempted for {event.by}, who is not more important")
        if event.by is not None and event.preemptions > MAX_PREEMPTIONS:
            self._violated(f"I23: {event.key} is preempted for the {event.preemptions}th time")
        self._check_nothing_held()

    def resumed(self, event: Resumed) -> None:
        """Note what it has not to compute again: all, if the memory has it."""
        tokens = self._preempted.pop(event.key)
        cache, slot = self._manager.cache, self._manager.table.slot(event.slot)
        record = self._manager.holds.get(event.key)
        assert record is not None
        hold, ram = record.hold, cache.tiers.ram
        if hold.kept != tokens:
            self._violated(f"I23: {event.key} had {tokens} tokens when it was preempted, and goes on from {hold.kept}")
        missing = [key for key in hold.prompt.keys[: tokens // BLOCK_TOKENS] if key not in ram]
        has_tail = tokens % BLOCK_TOKENS == 0 or (hold.tail is not None and hold.tail.key in ram)
        is_there = len(slot.tokens) >= tokens or (not missing and has_tail)
        if is_there and cache.rings is None and not cache.invalidation.audit_share and self._is_sound():
            self._expected[event.key] = Expected(tokens, cache.invalidation.alarms)

    def committed(self, event: Committed) -> None:
        """Check that nothing is computed that was there."""
        expected = self._expected.get(event.key)
        if event.drafting or expected is None:
            return
        is_sound = expected.alarms == self._manager.cache.invalidation.alarms and self._is_sound()
        if event.start < expected.tokens and is_sound:
            self._violated(f"I23: {event.key} computes {event.start} again, and had {expected.tokens} tokens")
        del self._expected[event.key]

    def invalidated(self, event: Invalidated) -> None:
        """Expect that it is computed again: a step over what was restored has failed, so that is under suspicion."""
        self._expected.pop(event.key, None)

    def released(self, event: Released) -> None:
        """Forget it."""
        self._preempted.pop(event.key, None)
        self._expected.pop(event.key, None)

    def step_begins(self, event: StepBegins) -> None:
        """Check that nobody who is preempted has anything."""
        self._check_nothing_held()
        for part in event.parts:
            if part.key in self._preempted:
                self._violated(f"I23: a step has rows of {part.key}, who is preempted")

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check that nobody who is preempted has anything."""
        self._check_nothing_held()

    def _check_nothing_held(self) -> None:
        for slot in self._manager.table:
            if slot.owner in self._preempted:
                self._violated(f"I23: slot {slot.id} is owned by {slot.owner}, who is preempted")

    def _is_sound(self) -> bool:
        """Return whether nothing was planned that spoils KV, or a move of it."""
        return not self._watch.chaos.plan.fault and self._watch.invariants.kv_is_exact
