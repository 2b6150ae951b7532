"""The slot table: who has which slot, and which tokens' KV is valid in it.

State and everything that changes it, in one class with one owner, the slot manager's task.  A slot's `tokens` are
exactly those whose KV is committed: there is no second record that could disagree with them (seed 5).  Sequences are
compared by the names of their blocks, so that what a long one costs is the same as what a short one does.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.core.places.in_view import SlotsInView
from actors.core.places.pages import SlotPages
from actors.core.places.record import SlotRecord
from actors.core.places.state_pool import StatePool, most_of_round
from actors.core.places.states import States
from actors.core.slot_views import NOT_RESTORED
from runtime.common.ownership import TaskOwner
from runtime.kv.pages import pool_positions
from runtime.kv.token_chain import TokenChain
from runtime.loading.served import Proposer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from actors.core.slot_views import GenerationKey, Provenance, Resident, Session, SlotView
    from runtime.kv.blocks import BlockKey
    from runtime.kv.held import HeldBlocks
    from runtime.kv.rings import Rings


class SlotInFlight(Exception):
    """A bug in the engine: a slot was to be changed while a step that names it runs."""


class SlotTable(SlotsInView):
    """All slots of one device.

    Every method that changes a slot raises `NotTheOwner` for a task that does not own the table, and `SlotInFlight`
    while a step that names the slot runs.

    Args:
        slots, context: the most that run, and the most tokens of one.
        retained_places: places besides, for what was in slots that somebody more important got; 0 where there are
            `rings`, which are a slot's own.
        positions: of the pool of KV that they share; None for as many as all have at their longest.
        root: of the tokens' chains.
        proposer: whose drafter may have KV, too (`SlotsInView.draft_start`).
        rings: where the target's windowed layers keep their KV, if not all of it.
        state_buffers: of the target's recurrent layers; 0 where it has none.
        owner: who may change the slots.
    """

    def __init__(
        self,
        slots: int,
        context: int,
        *,
        retained_places: int = 0,
        positions: int | None = None,
        root: BlockKey = b"",
        proposer: Proposer = Proposer.OFF,
        rings: Rings | None = None,
        state_buffers: int = 0,
        owner: TaskOwner | None = None,
    ) -> None:
        self.rings = rings
        self.owner = owner or TaskOwner()
        pool = StatePool(state_buffers) if state_buffers else None
        records = [SlotRecord(i, TokenChain(root), rings, pool) for i in range(slots + retained_places)]
        super().__init__(records, slots, context, proposer)
        assert not retained_places or rings is None, "what is in rings cannot be exchanged"
        self.pages = SlotPages(pool_positions(slots, context, positions), records, slots, self._changing)
        of_round = most_of_round(state_buffers, slots)
        self.states = None if pool is None else States(pool, records, self._changing, lambda: self.grants, of_round)
        self._in_flight: frozenset[int] = frozenset()
        self._told: HeldBlocks | None = None

    def tell(self, held: HeldBlocks | None) -> None:
        """Have it noted there from now on what each slot holds, as it holds it now; None for no more."""
        self._told = held
        for record in self._records:
            self._tell(record)

    # --- grant and release --------------------------------------------------------------------------------------------

    def grant(
        self,
        owner: GenerationKey,
        prompt: TokenChain,
        *,
        reuse: bool = True,
        now: float = 0.0,
        session: Session | None = None,
        reserved: int = 0,
        expected: int = 0,
        private: bool = False,
    ) -> SlotView | None:
        """Give a generation the free slot that serves `prompt` at the least cost (`grant_cost`).

        The slot's `tokens` are then the part that is already there, none if its rings have not what the rest goes on
        with.  At least the prompt's last token is left to compute, because its logits are wanted.  A slot whose tokens
        are held for a retry goes to another's prompt only if there is no other.  `reserved` is how many tokens the
        sequence may come to have, and `expected` how many of them others have who run.  None if no slot is free, or the
        pool could not keep the reservation.  What is computed for a generation that is `private` is told to nobody.
        """
        self.owner.check()
        if not self.pages.grantable([reserved - expected]):
            return None
        cheapest, usable = self.cheapest(self.free, prompt, reuse=reuse, now=now, session=session)
        slot = self._changing(cheapest)
        self._grants += 1
        slot.before = slot.resident()
        slot.private = private
        if self.states is not None:
            slot.displace_states(usable)
        slot.tokens = (slot.tokens if usable else prompt).head(usable)
        self.trim(slot, usable)
        slot.owner, slot.session = owner, session
        slot.reserved, slot.expected = self.pages.reservation(reserved), expected
        return slot

    def release(self, slot: SlotView, held_until: float = 0.0) -> None:
        """Let a slot go.  The committed tokens stay resident, and on trial if they still were."""
        record = self._changing(slot)
        assert record.owner is not None, f"slot {slot.id} is released, and nobody holds it"
        record.trim_draft(len(record.tokens))
        record.pass_on()
        record.passing = ()
        record.staged = 0
        record.owner = None
        record.held_until = held_until
        record.last_used = self._grants

    def evict(self, slot: SlotView) -> Resident:
        """Forget what a free slot holds, so that others have its room; returns that."""
        record = self._changing(slot)
        assert record.owner is None, f"slot {slot.id} is held, and is to be evicted"
        record.before = resident = record.resident()
        if self.states is not None:
            record.displace_states(0)
        self.trim(slot, 0)
        self.pages.counts.given_up += 1
        return resident

    def exchange(self, slot: SlotView, retained: SlotView) -> None:
        """Let two places that nobody holds have what the other has; nothing is copied, since only names change."""
        one, other = self._changing(slot), self._changing(retained)
        assert one.owner is None, f"slot {one.id} is held, and is to be exchanged"
        assert other.owner is None, f"place {other.id} is held, and is to be exchanged"
        one.exchange(other)
        self._tell(other)
        self._tell(one)

    def keep_until(self, place: SlotView, until: float) -> None:
        """Let what a place that nobody holds has be evicted after all others until then, by Trio's clock."""
        self._changing(place).held_until = until

    @contextmanager
    def in_flight(self, slot_ids: Iterable[int]) -> Iterator[None]:
        """While the scope lasts, a step runs that names these slots: nobody may change them."""
        self._in_flight = frozenset(slot_ids)
        try:
            yield
        finally:
            self._in_flight = frozenset()

    # --- the tokens of a slot -----------------------------------------------------------------------------------------

    def note_written(self, slot: SlotView, end: int) -> None:
        """Record that rows up to position `end` are about to be written, committed or not: rings lose what they had."""
        record = self._changing(slot)
        if self.rings is not None:
            record.least = max(record.least, self.rings.least_length(end))

    def commit(self, slot: SlotView, token_ids: Sequence[int]) -> None:
        """Record that the KV of `token_ids`, which follow the slot's tokens, was computed there and is finite.

        What it was computed after is no longer on trial.
        """
        record = self._changing(slot)
        record.tokens.extend(token_ids)
        record.trial.clear()
        record.staged = 0
        self._tell(record)

    def stage(self, slot: SlotView, end: int, source: Provenance) -> None:
        """Record that KV up to position `end` was moved in, but not that of rings: nobody can go on from it yet.

        `commit_transferred` makes it whole; any other change of the slot's tokens drops it.
        """
        record = self._changing(slot)
        record.staged = end
        record.stand_on(source)

    def commit_transferred(
        self,
        slot: SlotView,
        token_ids: Sequence[int],
        source: Provenance = NOT_RESTORED,
        least: int = 0,
    ) -> None:
        """Record that the KV of `token_ids`, which follow the slot's tokens, was moved in.

        Args:
            slot: where to.
            token_ids: whose KV it is.
            source: where it came from.
            least: the least length that the slot can go on from now.
        """
        record = self._changing(slot)
        record.tokens.extend(token_ids)
        record.computed_from = len(record.tokens)
        record.restored_to = max(record.restored_to, source.restored_to)
        record.stand_on(source)
        record.least, record.staged = least, 0
        if source.states:
            record.put_states(source.states, passing=False)
        self._tell(record)

    def trim(self, slot: SlotView, length: int) -> None:
        """Keep the first `length` tokens, in the drafter's KV as well; no trace is left of a slot without any.

        None is kept where the rings have not what a sequence goes on with from there, and none behind the last state.
        """
        record = self._changing(slot)
        length = record.usable(min(length, len(record.tokens)))
        record.tokens.truncate(length)
        self._tell(record)
        record.drop_states([one for one in record.states if one > length])
        record.computed_from = min(record.computed_from, length)
        record.restored_to = min(record.restored_to, length)
        record.staged = 0
        record.stands_on = {key: start for key, start in record.stands_on.items() if start < length}
        record.trim_draft(length)
        if not length:
            record.least = 0
            record.trial.clear()
            record.suspect = False

    def invalidate(self, slot: SlotView) -> None:
        """Forget every token of a slot: its KV met a failure."""
        self.trim(slot, 0)

    def quarantine(self, keys: Collection[BlockKey]) -> None:
        """Use no KV any more that came from these blocks, or may have been computed after them.

        A free slot is invalidated at once.  One that is held is suspect: nothing is copied from it, and it is
        invalidated when its prompt has been read, or at its end.
        """
        self.owner.check()
        for slot in self._records:
            if slot.stands_on.keys().isdisjoint(keys):
                continue
            if slot.owner is None:
                self.invalidate(slot)
            else:
                self._changing(slot).suspect = True

    # --- the drafter's KV of a slot -----------------------------------------------------------------------------------

    def commit_draft(self, slot: SlotView, start: int, rows: int) -> None:
        """Record that the drafter's KV of `rows` tokens from `draft_start` on is valid."""
        record = self._changing(slot)
        record.draft_first = self.draft_first(slot, start)
        record.draft_length = start + rows

    def end_round(self, slot: SlotView, start: int) -> None:
        """A step has committed rows from `start` on: trim the drafter's KV to what is still that of these tokens."""
        self._changing(slot).trim_draft(self._draft_kept(slot, start))

    def forget_draft(self, slot: SlotView) -> None:
        """Drop the drafter's KV: it met a failure."""
        self._changing(slot).trim_draft(0)

    def _tell(self, record: SlotRecord) -> None:
        if self._told is not None:
            self._told.slot_holds(record.id, record.tokens, private=record.private)

    def _changing(self, slot: SlotView) -> SlotRecord:
        """The slot's record, if the current task may change it now."""
        self.owner.check()
        if slot.id in self._in_flight:
            raise SlotInFlight(f"slot {slot.id} is to be changed, and the step that runs names it")
        return self._records[slot.id]
