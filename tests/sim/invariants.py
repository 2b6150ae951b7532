"""Invariants, whatever clients, devices and schedulers do: the one list.

    I1  a slot has at most one owner
    I2  no step names a slot that is not held and owned by that generation
    I3  no KV row within a committed length ever changes
    I4  every survivor's tokens equal its solo run's
    I5  a cancel is consumed before the next step starts, and its slot is free when that step ends
    I6  bytes and slots are conserved: free + leased = all, and the tiers' sums fit their budgets
    I7  every request ends exactly once, and every cancel has one receipt whose token counts add up
    I8  nobody starves: whoever waits, in the queue or with work in a slot, waits only for what goes before it
    I9  a request that meets one fault costs nobody else anything
    I10 KV that an audit has found wrong, and what was computed on it, is used by nobody who did not have it already
    I11 what observers are told is what happens: grants and releases pair up, rows add up to what receipts say
    I12 no slot, copy or block is taken to have KV that a ring has lost
    I13 where owners are isolated, nobody is served KV that was computed for another owner
    I14 no token is drawn that the grammar of its output forbids
    I15 what a prompt gives besides KV, a pooled state or scores, is what it gives alone
    I16 of each generation the feed tells a beginning, an end, and the cancel that its receipt has; whoever is too slow
        is told how much is lost
    I17 no span of a trace is left open; phases follow one another within their request, and the last says what the
        receipt says
    I18 a recording's spans are whole and lie within one another; its cancels are the receipts
    I19 the counters are the sums of receipts, ends, refusals and tokens
    I20 tokens that are counted as served again are those that a cancel left, each once
    I21 of a group that was ended nobody has a slot once a step has ended; of those that race one wins; a successor has
        the place that was left to it, never a slot beside it; nobody is cancelled without a reason that was given
    I22 a page that several sequences have is written by none; a step's rows lie in pages of their slot, which stay
    I23 whoever was preempted has no slot and no rows, and goes on where it was, without computing what is there; it is
        preempted `MAX_PREEMPTIONS` times at most, and never for its equal
    I24 who comes back to a request reads each event once, in order; nobody's absence is outlived beyond the bounds
    I25 a warm request has no row in a step while somebody else has work, but for the layer in which that one came
    I26 who is told of KV blocks knows which are held and can be reached, and of none that are private
    I27 to I34 are those of clusters: `tests.sim.cluster.invariants`
    I35 a burst goes on only with what its first step had, and while nobody's command waits
    I36 nobody's slot is granted, left or moved while the device is at a step that names it, or has begun one
    I37 nothing is kept behind the end of an output
    I38 a state that is named is that of exactly the tokens before it, and what is named is not written

Here are those that can be seen at each step's boundaries, but for I8 (`tests.sim.order.fairness`), I10
(`tests.sim.kv.watch`), I11 (`tests.sim.books`), I13 (`tests.sim.kv.isolation`), I16 to I20 (`tests.sim.instruments`),
I21 (`tests.sim.groups.watch`), I22 (`tests.sim.kv.places`), I23 (`tests.sim.preemption`), I24 (`tests.sim.detached`),
I25 (`tests.sim.warm`), I26 (`tests.sim.kv.published`), I35 to I37 (`tests.sim.order.bursts`) and I38
(`tests.sim.kv.states`); the end's are in `tests.sim.endings`.  A violation is kept, not raised: it comes to light when
the scenario is over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import trio

from actors.core.observer import Observer
from runtime.errors import DeviceLost
from runtime.testing.unreliable import PlannedFault
from tests.sim.device import PlantedFault
from tests.sim.grammars import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.events import Exchanged, StepBegins, StepEnded, StepPart, StepRaised, TransferBegins, TransferEnded
    from actors.core.generation import GenerationRequest
    from actors.core.slot_views import SlotView
    from runtime.testing.simulated import SimulatedDrafter
    from tests.sim.books import Owner
    from tests.sim.watch import Watch

PLANNED = (PlannedFault, PlantedFault, torch.OutOfMemoryError, DeviceLost)


class Invariants(Observer):
    """I1 to I6 and I9, checked when a step begins or ends, and when KV is moved.

    Args:
        watch: with the books, which are told of each event before this; the model, and what its KV must be.

    Attributes:
        kv_is_exact: False while blocks that lie are meant to be in use.
        not_predicted: requests whose tokens are not the stand-in model's alone, for they forbid some.
        held: the requests whose outputs are held to a rule, by id.
    """

    def __init__(self, watch: Watch) -> None:
        self.kv_is_exact = True
        self.not_predicted: set[str] = set()
        self.held: dict[str, GenerationRequest] = {}
        self._watch = watch
        self._books = watch.books
        self._manager = watch.manager
        self._violated = watch.violated
        self._model = watch.model
        self._truth = watch.truth
        self._step: StepBegins
        self._met_cancelled: set[Owner] = set()
        self._last_end = -math.inf  # of a step or a move
        self._goes_on = False  # the device has begun the next step
        self._failed: list[SlotView] = []  # over whose KV a step has failed just now

    # --- moments ------------------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Check all before anything of this step has run."""
        self._step = event
        for part in event.parts:
            self._check_i2_part(part)
            if not self._goes_on:  # else it has begun a moment ago, and somebody may have left since
                self._check_i5_part(part)
            if not event.drafting:
                self._check_i3_start(part)
        if not event.parts:
            self._violated("I2: a step of nothing")
        if not self._goes_on:
            self._check_i5_all()
        self.between()

    def step_ended(self, event: StepEnded) -> None:
        """Check what has come of it, before anybody hears of that."""
        for part in self._step.parts:
            self._check_i2_part(part)
        if not event.drafting:
            if self.kv_is_exact:
                self._check_i4_tokens(event)
            finite = [result.finite for result in event.result.segments]
            self._note_failed([part for part, is_finite in zip(self._step.parts, finite, strict=True) if not is_finite])
        self._last_end = trio.current_time()
        self._goes_on = event.result.following is not None

    def step_raised(self, event: StepRaised) -> None:
        """Check that it was to raise, and note whose KV met that; of several in a step, nobody knows."""
        if not isinstance(event.error, PLANNED):
            self._violated(f"I9: a step raised, and nobody had planned it: {event.error!r}")
        for part in self._step.parts:
            self._check_i2_part(part)
        if not event.drafting:
            self._note_failed(self._step.parts if len(self._step.parts) == 1 else [])
        self._last_end, self._goes_on = trio.current_time(), False

    def exchanged(self, event: Exchanged) -> None:
        """Note where it is now that a step has failed over."""
        names = {event.slot: event.retained, event.retained: event.slot}
        self._failed = [self._manager.table.slot(names.get(slot.id, slot.id)) for slot in self._failed]

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check all before KV is moved."""
        self.between()

    def transfer_ended(self, event: TransferEnded) -> None:
        """Note when that was."""
        self._last_end = trio.current_time()

    def between(self) -> None:
        """Check what holds whenever no step is running."""
        while self._failed:
            slot = self._failed.pop()
            if slot.tokens:
                self._violated(f"I3: slot {slot.id}: a step failed over it, and {len(slot.tokens)} tokens are kept")
        self._check_i1()
        self.check_i3()
        self._check_i12()
        self._check_i6()

    # --- I1, I2 -------------------------------------------------------------------------------------------------------

    def _check_i1(self) -> None:
        held = {one.slot: owner for owner, one in self._books.holding.items()}
        owned = {slot.id: slot.owner for slot in self._manager.table.places if slot.owner is not None}
        if held != owned or len(held) != len(self._books.holding):
            self._violated(f"I1: by what was told {held} hold slots, and these are owned by {owned}")

    def _check_i2_part(self, part: StepPart) -> None:
        holder = self._books.holder(part.slot)
        owner = self._manager.table.slot(part.slot).owner
        if holder is None or not holder.owner == owner == part.key:
            name = None if holder is None else holder.owner
            self._violated(f"I2: a step names slot {part.slot} for {part.key}; {name} holds it, {owner} owns it")

    # --- I3, I4 -------------------------------------------------------------------------------------------------------

    def check_i3(self) -> None:
        """Check that the tokens in the table are those whose KV is in the slots, row by row (seed 5)."""
        for slot in self._manager.table.places:
            rows = self._truth.rows(slot.tokens, slot.id)
            exact = self._model.exact(slot.pages, len(rows))
            if self.kv_is_exact and self._model.rows(slot.pages, 0, exact) != rows[:exact]:
                self._violated(f"I3: slot {slot.id}: its KV is not that of its {len(rows)} tokens")
            if self._watch.drafter is not None:
                self._check_i3_drafts(slot, self._watch.drafter)

    def _check_i3_drafts(self, slot: SlotView, drafter: SimulatedDrafter) -> None:
        """Check that what the drafter has read of committed tokens is of them; beyond lie the drafts of this round."""
        first, end = slot.draft_first, min(slot.draft_length, len(slot.tokens))
        rows = self._truth.rows(slot.tokens[first:end], ("draft", slot.id))
        if drafter.rows(slot.pages, first, first + len(rows)) != rows:
            self._violated(f"I3: slot {slot.id}: the drafter's KV from {first} to {end} is not that of its tokens")
        if slot.owner is None and slot.draft_length > len(slot.tokens):
            self._violated(f"I3: slot {slot.id}: idle, and the drafter is ahead of its tokens")

    def _check_i3_start(self, part: StepPart) -> None:
        committed = len(self._manager.table.slot(part.slot).tokens)
        if not part.token_ids:
            self._violated(f"I3: slot {part.slot}: a step begins with no rows")
        if part.start != committed:
            self._violated(f"I3: slot {part.slot}: rows go to {part.start}, and {committed} are committed")

    def _check_i4_tokens(self, event: StepEnded) -> None:
        """Check that what was drawn follows from the exact tokens before it."""
        for part, entry in zip(self._step.parts, event.result.segments, strict=True):
            if part.request_id in self.not_predicted or not entry.tokens:
                continue
            end = part.start + len(part.token_ids)
            if self._model.exact(self._manager.table.slot(part.slot).pages, end) < end:
                continue  # of who was deceived
            drawn = [token.token_id for token in entry.tokens]
            rows = part.token_ids[: len(part.token_ids) - part.drafts]
            history = [*self._manager.table.slot(part.slot).tokens, *rows, *drawn[:-1]]
            states = self._truth.rows(history, part.slot)[-len(drawn) :]
            expected = [self._model.next_token(state) for state in states]
            if part.request_id in self.held:
                expected = self._check_i14(part, history, drawn, expected)
            if drawn != expected:
                self._violated(f"I4: slot {part.slot}: drew {drawn} after {len(history)} tokens, not {expected}")

    def _check_i14(self, part: StepPart, history: list[int], drawn: list[int], free: list[int]) -> list[int]:
        """No token is drawn that is forbidden; returns what has to be drawn, from what would be if nothing were."""
        asked = self.held[part.request_id]
        assert asked.grammar is not None
        rule = Rule.of(asked.grammar)
        whole = [*history[len(asked.prompts[part.index]) :], drawn[-1]]
        expected: list[int] = []
        for i, token_id in enumerate(free):
            output = whole[: len(whole) - len(free) + i]
            if len(output) >= rule.length:
                return [*expected, *drawn[i:]]  # behind the end, where nobody looks
            if rule.fails_at is not None and len(output) + len(drawn) > rule.fails_at:
                return [*expected, *drawn[i:]]  # drawn freely, and not taken
            if not rule.allows(output, drawn[i]):
                self._violated(f"I14: {part.key}: drew {drawn[i]} after {output}, which its grammar forbids")
            expected.append(rule.draw(output, token_id, self._model.vocab_size))
        return expected

    def _note_failed(self, parts: Sequence[StepPart]) -> None:
        self._failed = [self._manager.table.slot(part.slot) for part in parts]

    # --- I12 ----------------------------------------------------------------------------------------------------------

    def _check_i12(self) -> None:
        """From each length that a slot is said to be able to go on from, its ring has all that is seen.

        Not where a lie may have tainted it.  A piece of a restore may have brought that where rows of the slot's own
        were, and left it there when it broke off, without what belongs to it in the ring; and of a copy in pieces, the
        first may have come from a sound slot, and the last, with the rings, from one that was lied to.
        """
        rings = self._model.rings
        if rings is None:
            return
        for slot in self._manager.table.places:
            if self._model.may_be_tainted(slot.stands_on.keys()):
                continue
            exact = self._model.exact(slot.pages, len(slot.tokens))
            lost = self._model.lost(slot.id, slot.pages, rings.first_needed(slot.least), exact)
            if lost:
                self._violated(f"I12: slot {slot.id}: its ring has lost {lost}, and it may be trimmed to {slot.least}")

    # --- I5 -----------------------------------------------------------------------------------------------------------

    def _check_i5_part(self, part: StepPart) -> None:
        holder = self._books.holding.get(part.key)
        if holder is not None and holder.cancelled_at is not None:
            self._violated(f"I5: a step begins with rows of {part.key}, who was cancelled before it")

    def _check_i5_all(self) -> None:
        if self._manager.unread:
            self._violated(f"I5: a step begins with {self._manager.unread} pieces of mail unread")
        for owner, one in self._books.holding.items():
            if one.cancelled_at is None:
                continue
            # In the very moment in which a step ends its successor may begin, before the actor had its turn.
            if owner in self._met_cancelled or one.cancelled_at < self._last_end:
                self._violated(f"I5: {owner} was cancelled, a step has ended since, and it still holds its slot")
            self._met_cancelled.add(owner)

    # --- I6 -----------------------------------------------------------------------------------------------------------

    def _check_i6(self) -> None:
        free, held, slots = len(self._manager.table.free), len(self._books.holding), len(self._manager.table)
        if free + held != slots:
            self._violated(f"I6: {free} slots are free, and {held} of {slots} are held")
        try:
            self._manager.check_integrity()
        except AssertionError as error:
            self._violated(f"I6: {error or 'the sums of a tier are wrong'}")
