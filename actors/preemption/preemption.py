"""Registry of those who have left their slots to more important ones, and of what is kept of them.

To preempt is to release a slot as a cancel does, but the request is kept.  Its actor waits on: for the answer to the
rows that it submitted last, which it gets when it has a slot again.  Its committed KV is put in a *retained place*, a
place that is granted to nobody: nothing is copied for that, and it is in nobody's way, since the room is lent as that
of any resident is.  Whoever needs it has it, and the KV is copied out to the tiers before, where its blocks are
*pinned* from the start.  So it is where there is no retained place: the KV stays where the slot was until it is copied
out.  One that is preempted waits in the queue, and comes back with what is in its retained place, or like a prompt
that is cached: what it lacks it has restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.events import Preempted, Resumed
from actors.core.hold import Tail
from actors.kv.prefix_cache import NOTHING_SET_ASIDE
from actors.preemption.retained_places import RetainedPlaces
from actors.scheduling.victims import choose, is_at_rest
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.account import Account
    from actors.core.hold import Ticket
    from actors.core.holds import HoldRecord, Holds
    from actors.core.observer import Observers
    from actors.core.slot_views import GenerationKey, SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache, SetAside


@dataclass(frozen=True, slots=True)
class _Kept:
    """One that was preempted: since when, on the executor's clock, and the blocks that are kept for it."""

    record: HoldRecord
    since: float
    blocks: SetAside


class Preemption:
    """Part of the slot manager: its task alone changes this.

    Attributes:
        preemptions, resumes: how many there were.
        retained_places: where KV of those is who are preempted.

    Args:
        table, cache, holds, observers: the manager's.
        is_on: whether anybody is preempted.
        now: the executor's clock.
    """

    def __init__(
        self,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        observers: Observers,
        *,
        is_on: bool,
        now: Callable[[], float],
    ) -> None:
        self.preemptions = self.resumes = 0
        self.retained_places = RetainedPlaces(table, cache.waiting, observers)
        self._table = table
        self._cache = cache
        self._holds = holds
        self._observers = observers
        self._is_on = is_on
        self._now = now
        self._owner = table.owner
        self._preempted: dict[GenerationKey, _Kept] = {}
        self._returning: dict[GenerationKey, _Kept] = {}  # those that have a slot, and not yet all their KV in it

    # --- looking in ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many are preempted."""
        return len(self._preempted)

    def record(self, key: GenerationKey) -> HoldRecord | None:
        """Return that of one that is preempted; None for others."""
        kept = self._preempted.get(key)
        return None if kept is None else kept.record

    def seconds(self, key: GenerationKey) -> float:
        """Return for how long one is preempted now; 0 for others."""
        kept = self._preempted.get(key)
        return 0.0 if kept is None else self._now() - kept.since

    def is_copied(self, key: GenerationKey) -> bool:
        """Return whether one can have what it needs to go on: no block that no slot can give still waits to be kept."""
        kept = self._preempted.get(key)
        if kept is None:
            return True
        sequence, cache = kept.record.hold.prompt, self._cache
        given = [(place.id, place.branch_point(place.tokens.shared_with(sequence))) for place in self._table.places]
        unless = cache.tiers.can_be_had
        return not any(cache.waiting.any_displaced(place, sequence, have, unless=unless) for place, have in given)

    def victims(self, priority: int, reserved: int, before: int) -> Sequence[HoldRecord]:
        """Return who is to be preempted so that one has a slot which waits since the grant `before`; or nobody."""
        if not self._is_on:
            return ()
        at_rest = (one for one in self._holds if self.can_leave(one) and not (one.reads_anew and one.length))
        candidates = [one for one in at_rest if self._cache.can_set_aside(one.length)]
        return choose(
            candidates,
            priority,
            before,
            is_enough=lambda freed: bool(self._table.pages.grantable([reserved], freed)),
        )

    def can_leave(self, record: HoldRecord) -> bool:
        """Return whether one can leave its slot here."""
        return record.key not in self._returning and is_at_rest(record, self._table.draft_start(record.slot))

    def last(self) -> HoldRecord | None:
        """Return the last of those who were granted a slot and can leave it, but for the first; None if nobody can."""
        _, *others = sorted(self._holds, key=lambda record: record.granted)
        return next((one for one in reversed(others) if self.can_leave(one)), None)

    # --- changes ------------------------------------------------------------------------------------------------------

    def preempt(self, record: HoldRecord, by: Ticket | None) -> None:
        """Take a slot from its holder, which is to wait for another: `by` whom, None for want of room."""
        self._owner.check()
        slot, length = record.slot, record.length
        self.forget(record)
        self._table.release(slot)
        blocks = NOTHING_SET_ASIDE
        is_own = not self._cache.waiting.any_of(slot.id)  # else nothing was written here since the grant
        if is_own and self._cache.can_set_aside(length):
            blocks = self._cache.set_aside(slot.id, slot.resident(), self.preemptions)
            if self._table.states is not None:
                self._table.states.forget_displaced(slot)  # copied out, since nothing waits
        record.preempt(None if blocks.tail is None else Tail(blocks.tail, length // BLOCK_TOKENS, length))
        self._holds.remove(record)
        self._table.pages.fit(slot, self._cache.waiting.end(slot.id))
        if is_own and slot.tokens:
            self.retained_places.put(record.key, slot)
        self._preempted[record.key] = _Kept(record, self._now(), blocks)
        self.preemptions += 1
        if self._observers.preempted:
            event = Preempted(
                *record.key, slot.id, length, record.ledger.preemptions, None if by is None else by.request_id
            )
            self._observers.tell(self._observers.preempted, event)

    def bring_back(self, record: HoldRecord, slot: SlotView) -> None:
        """Go on with one that was granted a slot again; what is pinned for it stays so until it has it."""
        self._owner.check()
        seconds = self.seconds(record.key)
        self.retained_places.leave(record.key)
        self._returning[record.key] = self._preempted.pop(record.key)
        record.go_on_in(slot, self._table.grants, seconds)
        self._holds.put_back(record)
        self.resumes += 1
        if self._observers.resumed:
            event = Resumed(*record.key, slot.id, len(slot.tokens), record.leaders, seconds)
            self._observers.tell(self._observers.resumed, event)

    def end(self, record: HoldRecord) -> Account:
        """End one that is preempted: its account."""
        self._owner.check()
        account = record.account_without_slot(self.seconds(record.key))
        self.retained_places.leave(record.key)
        self._cache.let_go(self._preempted.pop(record.key).blocks)
        return account

    def settle(self) -> None:
        """Let go what was pinned for those who have all of it in their slots again."""
        self._owner.check()
        for kept in list(self._returning.values()):
            if kept.record.length >= kept.record.hold.kept:
                self.forget(kept.record)

    def forget(self, record: HoldRecord) -> None:
        """Let go what was pinned for one that has come back, and has it again, or has ended, or is preempted anew."""
        self._owner.check()
        kept = self._returning.pop(record.key, None)
        if kept is not None:
            self._cache.let_go(kept.blocks)

    def check_integrity(self) -> None:
        """Raise AssertionError if one that is preempted has a slot, another a retained place, or too much is kept."""
        self.retained_places.check_integrity(self._preempted)
        for kept in self._preempted.values():
            assert self._holds.get(kept.record.key) is None, f"{kept.record.key} is preempted, and holds a slot"
        wanted = {key for kept in (*self._preempted.values(), *self._returning.values()) for key in kept.blocks.pinned}
        assert self._cache.tiers.ram.pinned == len(wanted), "blocks are pinned for nobody"
