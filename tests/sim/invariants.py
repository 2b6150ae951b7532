"""What must hold, whatever clients, devices and schedulers do.

    I1  a slot has at most one owner
    I2  no step names a slot that is not leased by that work's request
    I3  no KV row within a committed length ever changes
    I4  every survivor's tokens equal its solo run's
    I5  a cancel is consumed before the next step starts, and its slot is free when that step ends
    I6  bytes and slots are conserved: free + leased = all, and the tiers' sums fit their budgets
    I7  every request ends exactly once, and every cancel has one receipt whose token counts add up
    I8  nobody starves: queue wait is bounded by the work ahead of it
    I9  a request that meets one fault costs nobody else anything
    I10 KV that an audit has found wrong, and what was computed on it, is used by nobody who did not have it already

Here are those that can be seen at each step's boundaries, but for I10, which is in `tests.sim.kv_watch`; what can be
said only when all is over is in `tests.sim.endings`.  A violation is kept, not raised: raised inside a step, the
manager would take it for a fault of the device.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.lease import Lease, Work
from actors.core.slots import SlotState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.core.slots import Slot
    from actors.manager.slot_manager import SlotManager
    from runtime.step.step import Segment, StepResult
    from runtime.testing.simulated import SimulatedDrafter
    from tests.sim.device import FaultyModel
    from tests.sim.history import Truth

ROUNDING = 2e-6  # of seconds since the epoch as floats
MOST_DRAFTS = 40  # steps in a row: a round that has just begun for one, and those it then waits for


@dataclass(slots=True)
class Activity:
    """How many seconds the device, or a disk that somebody waits for, has been busy."""

    clock: Callable[[], float]
    _total: float = 0.0
    _going_on: int = 0
    _since: float = 0.0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Something takes the time until the end of the scope; several may overlap."""
        if not self._going_on:
            self._since = self.clock()
        self._going_on += 1
        try:
            yield
        finally:
            self._going_on -= 1
            if not self._going_on:
                self._total += self.clock() - self._since

    def jump(self, seconds: float) -> None:
        """Count a jump of the clock, which comes as a step begins, as work."""
        if not self._going_on:
            self._total += seconds

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self._total + (self.clock() - self._since if self._going_on else 0.0)


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a lease joined the queue, and how busy the device had been by then."""

    at: float
    busy: float


class Invariants:
    """I1 to I6 and I8, checked from inside: the caller says when a step begins, ends, or KV is moved.

    Args:
        manager: whose slots, leases, queue and mail are looked at.
        model, drafter: whose KV is.
        truth: what that must be.
        activity: of the device.
    """

    def __init__(
        self,
        manager: SlotManager,
        model: FaultyModel,
        drafter: SimulatedDrafter | None,
        truth: Truth,
        activity: Activity,
    ) -> None:
        self.violations: list[str] = []
        self.kv_is_exact = True  # False while blocks that lie are meant to be in use
        self._manager = manager
        self._model = model
        self._drafter = drafter
        self._truth = truth
        self._activity = activity
        self._arrivals: dict[Lease, Arrival] = {}
        self._met_cancelled: set[Lease] = set()
        self._last_end = -math.inf  # of a step or a move
        self._failed: list[Slot] = []  # over whose KV a step has failed just now
        self._waits_for_drafts = 0  # steps of the drafter, while someone has work for the target

    def violated(self, what: str) -> None:
        """Keep a violation; the first few say all there is to say."""
        if len(self.violations) < 20:
            self.violations.append(what)

    # --- moments ------------------------------------------------------------------------------------------------------

    def step_begins(self, segments: Sequence[Segment], *, drafting: bool) -> None:
        """Nothing of this step has run."""
        by_mark = {id(lease.mark): lease for lease in self._manager._leases.values()}
        for segment in segments:
            lease = by_mark.get(id(segment.mark))
            self._check_i2_segment(segment, lease)
            self._check_i5_segment(segment, lease)
            if lease is not None and lease.slot is not None and not drafting:
                self._check_i3_start(segment, lease.slot)
        if not segments:
            self.violated("I2: a step of nothing")
        self._check_i5_all()
        self._check_i8_nobody_is_left_out(segments, drafting=drafting)
        self.between()

    def step_ended(self, segments: Sequence[Segment], result: StepResult | None, *, drafting: bool) -> None:
        """The manager has not heard of it yet; without a result it raised."""
        by_mark = {id(lease.mark): lease for lease in self._manager._leases.values()}
        for segment in segments:
            self._check_i2_segment(segment, by_mark.get(id(segment.mark)))
        if result is not None and not drafting and self.kv_is_exact:
            self._check_i4_tokens(segments, result)
        if not drafting:
            self._note_failures(segments, result)
        self._last_end = self._activity.clock()

    def moved(self) -> None:
        """KV has been moved, and the manager has not heard of it yet."""
        self._last_end = self._activity.clock()

    def between(self) -> None:
        """What holds whenever no step is running."""
        while self._failed:
            slot = self._failed.pop()
            if slot.tokens:
                self.violated(f"I3: slot {slot.id}: a step failed over it, and {len(slot.tokens)} tokens are kept")
        self._check_i1()
        self.check_i3()
        self._check_i6()

    # --- I1, I2 -------------------------------------------------------------------------------------------------------

    def _check_i1(self) -> None:
        held = {lease.slot.id: lease.owner for lease in self._manager._leases.values() if lease.slot is not None}
        owned = {slot.id: slot.owner for slot in self._manager.table._slots if slot.owner is not None}
        if held != owned or len(held) != len(self._manager._leases):
            self.violated(f"I1: leases hold {held}, and slots are owned by {owned}")

    def _check_i2_segment(self, segment: Segment, lease: Lease | None) -> None:
        slot = None if lease is None else lease.slot
        if lease is None or slot is None or slot.id != segment.slot or slot.owner != lease.owner:
            owner = "nobody" if lease is None else lease.owner
            self.violated(f"I2: a step names slot {segment.slot} for {owner}, who does not lease it")

    # --- I3, I4 -------------------------------------------------------------------------------------------------------

    def check_i3(self) -> None:
        """The tokens that the table has are those whose KV is in the slots, row by row (seed 5)."""
        for slot in self._manager.table._slots:
            rows = self._truth.rows(slot.tokens, slot.id)
            exact = self._model.exact(slot.id, len(rows))
            if self.kv_is_exact and self._model.kv[slot.id][:exact] != rows[:exact]:
                self.violated(f"I3: slot {slot.id}: its KV is not that of its {len(rows)} tokens")
            if self._drafter is not None:
                self._check_i3_drafts(slot, self._drafter)

    def _check_i3_drafts(self, slot: Slot, drafter: SimulatedDrafter) -> None:
        """What the drafter has read of the committed tokens is of them; beyond lie the drafts of this round."""
        first, end = slot.draft_first, min(slot.draft_length, len(slot.tokens))
        rows = self._truth.rows(slot.tokens[first:end], ("draft", slot.id))
        if drafter.kv[slot.id][first : first + len(rows)] != rows:
            self.violated(f"I3: slot {slot.id}: the drafter's KV from {first} to {end} is not that of its tokens")
        if slot.owner is None and slot.draft_length > len(slot.tokens):
            self.violated(f"I3: slot {slot.id}: idle, and the drafter is ahead of its tokens")

    def _check_i3_start(self, segment: Segment, slot: Slot) -> None:
        if not segment.token_ids:
            self.violated(f"I3: slot {slot.id}: a step begins with no rows")
        if segment.start != len(slot.tokens):
            self.violated(f"I3: slot {slot.id}: rows go to {segment.start}, and {len(slot.tokens)} are committed")

    def _check_i4_tokens(self, segments: Sequence[Segment], result: StepResult) -> None:
        """What was drawn follows from the exact tokens before it."""
        for segment, entry in zip(segments, result.segments, strict=True):
            if segment.sample is None or segment.sample.params.min_tokens or not entry.tokens:
                continue
            if self._model.exact(segment.slot, segment.end) < segment.end:
                continue  # of who was deceived
            drawn = [token.token_id for token in entry.tokens]
            rows = list(segment.token_ids)[: len(segment.token_ids) - len(segment.drafts)]
            history = [*self._manager.table.slot(segment.slot).tokens, *rows, *drawn[:-1]]
            states = self._truth.rows(history, segment.slot)[-len(drawn) :]
            expected = [self._model._next(state) for state in states]
            if drawn != expected:
                self.violated(f"I4: slot {segment.slot}: drew {drawn} after {len(history)} tokens, not {expected}")

    def _note_failures(self, segments: Sequence[Segment], result: StepResult | None) -> None:
        """Whose KV met a failure; of several that were in a step that raised, nobody knows."""
        failed = [segment for i, segment in enumerate(segments) if result is not None and not result.segments[i].finite]
        if result is None and len(segments) == 1:
            failed = list(segments)
        self._failed = [self._manager.table.slot(segment.slot) for segment in failed]

    # --- I5 -----------------------------------------------------------------------------------------------------------

    def _check_i5_segment(self, segment: Segment, lease: Lease | None) -> None:
        if segment.mark.at is not None:
            self.violated(f"I5: a step begins with rows of {lease and lease.owner}, who was cancelled before it")

    def _check_i5_all(self) -> None:
        if self._manager._mailbox:
            self.violated(f"I5: a step begins with {len(self._manager._mailbox)} pieces of mail unread")
        for lease in self._manager._leases.values():
            if lease.mark.at is None:
                continue
            # In the very moment in which a step ends its successor may begin, before the actor had its turn.
            if lease in self._met_cancelled or lease.mark.at < self._last_end:
                self.violated(f"I5: {lease.owner} was cancelled, a step has ended since, and it still holds its slot")
            self._met_cancelled.add(lease)

    # --- I6 -----------------------------------------------------------------------------------------------------------

    def _check_i6(self) -> None:
        manager = self._manager
        if len(manager.table.free) + len(manager._leases) != len(manager.table):
            self.violated(f"I6: {len(manager.table.free)} slots are free, {len(manager._leases)} are leased")
        if any(lease.slot is not None for lease in manager._queue):
            self.violated("I6: a lease waits for a slot and has one")
        try:
            manager.table.check_integrity()
            manager.cache.check_integrity()
        except AssertionError as error:
            self.violated(f"I6: {error or 'the sums of a tier are wrong'}")

    # --- I8 -----------------------------------------------------------------------------------------------------------

    def joins(self, lease: Lease) -> None:
        """A lease is about to join the queue."""
        self._arrivals[lease] = Arrival(self._activity.clock(), self._activity.seconds)

    def refused(self, lease: Lease) -> None:
        """There was no place in the queue."""
        del self._arrivals[lease]

    def granted(self, lease: Lease | None, owner: tuple[str, int]) -> None:
        """A slot was granted to `owner`, whose lease still is in the queue, unless somebody is mistaken."""
        if lease is None or lease.mark.at is not None:
            self.violated(f"I5: {owner} is granted a slot, though not waiting for one")
            return
        for ahead in self._manager._queue:
            if ahead is lease:
                break
            if ahead.mark.at is None:
                self.violated(f"I8: {owner} is granted a slot before {ahead.owner}, who came earlier")
        self._check_i8_wait(lease)

    def _check_i8_wait(self, lease: Lease) -> None:
        """Work ahead is all that anyone waits for; no slot waits for a socket (C6)."""
        arrival = self._arrivals.pop(lease)
        waited, worked = self._activity.clock() - arrival.at, self._activity.seconds - arrival.busy
        if waited > worked + ROUNDING:
            self.violated(f"I8: {lease.owner} waited {waited:.6f} s, of which the device worked only {worked:.6f}")

    def _check_i8_nobody_is_left_out(self, segments: Sequence[Segment], *, drafting: bool) -> None:
        manager = self._manager
        if manager.table.free and any(lease.mark.at is None for lease in manager._queue):
            self.violated("I8: a step begins while a slot is free and somebody waits for one")
        ready = [work for lease in manager._leases.values() if (work := self._ready_work(lease)) is not None]
        if any(work.suspect for work in ready):
            return  # each of those who were in a step that raised runs alone
        served = {id(segment.mark) for segment in segments}
        oldest_prompt_is_served = False
        for work in ready:
            if (work.phase is SlotState.DRAFT) != drafting:
                continue
            if id(work.lease.mark) in served:
                oldest_prompt_is_served |= work.is_bulk
            elif not (work.is_bulk and oldest_prompt_is_served):
                self.violated(f"I8: {work.lease.owner} has work, and a step begins without it")
        waiting = drafting and any(work.phase is not SlotState.DRAFT for work in ready)
        self._waits_for_drafts = self._waits_for_drafts + 1 if waiting else 0
        if self._waits_for_drafts > MOST_DRAFTS:
            self.violated(f"I8: the target has work, and {self._waits_for_drafts} steps of the drafter go before it")

    def _ready_work(self, lease: Lease) -> Work | None:
        assert lease.slot is not None
        blocked = lease.mark.at is not None or lease.is_led or self._manager.cache.waiting.any_of(lease.slot.id)
        return lease.pending if isinstance(lease.pending, Work) and not blocked else None
