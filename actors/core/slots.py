"""The slot table: who has which slot, and which tokens' KV is valid in it.

State and everything that changes it, in one class with one owner, the slot manager's task.  A slot's `tokens` are
exactly those whose KV is committed: there is no second record that could disagree with them (seed 5).  Sequences are
compared by the names of their blocks, so that what a long one costs is the same as what a short one does.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.core.slot_views import Candidate, Resident, SlotStatus, grant_cost
from runtime.kv.token_chain import TokenChain
from runtime.ownership import TaskOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set

    from actors.core.life import State
    from actors.core.slot_views import GenerationKey, Session, SlotView
    from runtime.kv.blocks import BlockKey
    from runtime.kv.rings import Rings


class SlotInFlight(Exception):
    """A bug in the engine: a slot was to be changed while a step that names it runs."""


@dataclass(slots=True, eq=False)
class _Slot:
    """One place for a running sequence; see `SlotView`."""

    id: int
    tokens: TokenChain
    rings: Rings | None
    owner: GenerationKey | None = None
    session: Session | None = None  # of whoever was last granted it
    last_used: int = 0  # the table's grant count at the last release
    held_until: float = 0.0
    before: Resident | None = None
    trial: list[BlockKey] = field(default_factory=list)
    stands_on: set[BlockKey] = field(default_factory=set)
    suspect: bool = False
    computed_from: int = 0
    least: int = 0
    staged: int = 0
    draft_first: int = 0
    draft_length: int = 0

    @property
    def windows_from(self) -> int:
        return 0 if self.rings is None else self.rings.first_kept(self.least)

    def resident(self) -> Resident:
        tokens = self.tokens.head(len(self.tokens))
        return Resident(tokens, frozenset(self.trial), frozenset(self.stands_on), self.windows_from)

    def usable(self, length: int) -> int:
        return length if length >= self.least else 0

    def usable_for(self, prompt: TokenChain) -> int:
        return self.usable(min(self.tokens.shared_with(prompt), len(prompt) - 1))

    def candidate(self, usable: int, grants: int, now: float) -> Candidate:
        idle, is_held = grants - self.last_used, self.held_until > now
        return Candidate(len(self.tokens), usable, idle, is_held, self.session, self.last_used)


class SlotTable:
    """All slots of one device.

    Every method that changes a slot raises `NotTheOwner` for a task that does not own the table, and `SlotInFlight`
    while a step that names the slot runs.

    Args:
        slots, context: how many, and tokens in each.
        root: of the tokens' chains.
        drafts_from_states: the drafter goes on from the target's hidden states (an MTP module), so it can read only
            what the target has computed, and its rows that ran ahead of the target do not last.
        rings: where the target's windowed layers keep their KV, if not all of it.
        owner: who may change the slots.
    """

    def __init__(
        self,
        slots: int,
        context: int,
        *,
        root: BlockKey = b"",
        drafts_from_states: bool = False,
        rings: Rings | None = None,
        owner: TaskOwner | None = None,
    ) -> None:
        self.context = context
        self.rings = rings
        self.owner = owner or TaskOwner()
        self._drafts_from_states = drafts_from_states
        self._slots = [_Slot(i, TokenChain(root), rings) for i in range(slots)]
        self._in_flight: frozenset[int] = frozenset()
        self._grants = 0

    # --- looking in ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many slots there are."""
        return len(self._slots)

    def __iter__(self) -> Iterator[SlotView]:
        """Look at each slot, by its number."""
        return iter(self._slots)

    def slot(self, slot_id: int) -> SlotView:
        """The slot of that id."""
        return self._slots[slot_id]

    @property
    def free(self) -> list[SlotView]:
        """The slots that nobody holds."""
        return [slot for slot in self._slots if slot.owner is None]

    @property
    def held(self) -> list[SlotView]:
        """The others."""
        return [slot for slot in self._slots if slot.owner is not None]

    def longest_live_prefix(
        self, prompt: TokenChain, *, limit: int, besides: SlotView | None
    ) -> tuple[SlotView | None, int]:
        """The other slot from which most of `prompt` can be copied, and how much of that; none under suspicion."""
        others = [slot for slot in self._slots if slot is not besides and not slot.suspect]
        shared = [(slot, slot.usable(min(slot.tokens.shared_with(prompt), limit))) for slot in others]
        return max(shared, key=lambda source: source[1], default=(None, 0))

    def draft_start(self, slot: SlotView) -> int:
        """The first position that the drafter has not read and can read."""
        return max(slot.draft_length, slot.computed_from + 1) if self._drafts_from_states else slot.draft_length

    def draft_first(self, slot: SlotView, start: int) -> int:
        """The first position of which the drafter has KV, once it has read on from `start`."""
        return slot.draft_first if start == slot.draft_length and start else start

    def status(self, state_of: Callable[[GenerationKey], State]) -> Iterator[SlotStatus]:
        """Every slot as a frozen snapshot, made when its turn comes: there may be thousands."""
        for slot in self._slots:
            yield _status(slot, state_of)

    def check_integrity(self) -> None:
        """Raise AssertionError if the table contradicts itself."""
        owners = [slot.owner for slot in self._slots if slot.owner is not None]
        assert len(owners) == len(set(owners)), f"one generation holds two slots: {owners}"
        for slot in self._slots:
            _check_slot(slot, self.context)

    # --- grant and release --------------------------------------------------------------------------------------------

    def grant(
        self,
        owner: GenerationKey,
        prompt: TokenChain,
        *,
        reuse: bool = True,
        now: float = 0.0,
        session: Session | None = None,
    ) -> SlotView | None:
        """Give a generation the free slot that serves `prompt` at the least cost (`grant_cost`).

        The slot's `tokens` are then the part that is already there, none if its rings have not what the rest goes on
        with.  At least the prompt's last token is left to compute, because its logits are wanted.  A slot whose tokens
        are held for a retry goes to another's prompt only if there is no other.  None if no slot is free.
        """
        self.owner.check()
        candidates = [(slot, slot.usable_for(prompt) if reuse else 0) for slot in self._slots if slot.owner is None]
        if not candidates:
            return None
        slot, usable = min(
            candidates,
            key=lambda free: grant_cost(
                free[0].candidate(free[1], self._grants, now), len(prompt), session, len(self._slots)
            ),
        )
        self._grants += 1
        slot.before = slot.resident()
        slot.tokens = (slot.tokens if usable else prompt).head(usable)
        self.trim(slot, usable)
        slot.owner, slot.session = owner, session
        return slot

    def release(self, slot: SlotView, held_until: float = 0.0) -> None:
        """Let a slot go.  The committed tokens stay resident, and on trial if they still were."""
        record = self._changing(slot)
        assert record.owner is not None, f"slot {slot.id} is released, and nobody holds it"
        _trim_draft(record, len(record.tokens))
        record.staged = 0
        record.owner = None
        record.held_until = held_until
        record.last_used = self._grants

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

    def stage(self, slot: SlotView, end: int, trial: Sequence[BlockKey], stands_on: Set[BlockKey]) -> None:
        """Record that KV up to position `end` was moved in, but not that of rings: nobody can go on from it yet.

        The arguments are those of `commit_moved`, which makes it whole; any other change of the slot's tokens drops it.
        """
        record = self._changing(slot)
        record.staged = end
        record.trial += trial
        record.stands_on |= stands_on

    def commit_moved(
        self,
        slot: SlotView,
        token_ids: Sequence[int],
        trial: Sequence[BlockKey] = (),
        stands_on: Set[BlockKey] = frozenset(),
        least: int = 0,
    ) -> None:
        """Record that the KV of `token_ids`, which follow the slot's tokens, was moved in.

        Args:
            slot: where to.
            token_ids: whose KV it is.
            trial: the blocks that it came from, over which no step has run.
            stands_on: all blocks that it came from, or may have been computed after.
            least: the least length that the slot can go on from now.
        """
        record = self._changing(slot)
        record.tokens.extend(token_ids)
        record.computed_from = len(record.tokens)
        record.trial += trial
        record.stands_on |= stands_on
        record.least, record.staged = least, 0

    def trim(self, slot: SlotView, length: int) -> None:
        """Keep the first `length` tokens, in the drafter's KV as well; no trace is left of a slot without any.

        None is kept where the rings have not what a sequence goes on with from there.
        """
        record = self._changing(slot)
        length = record.usable(length)
        record.tokens.truncate(length)
        record.computed_from = min(record.computed_from, length)
        record.staged = 0
        _trim_draft(record, length)
        if not length:
            record.least = 0
            record.trial.clear()
            record.stands_on.clear()
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
        for slot in self._slots:
            if slot.stands_on.isdisjoint(keys):
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
        _trim_draft(self._changing(slot), start + 1 if self._drafts_from_states else len(slot.tokens))

    def forget_draft(self, slot: SlotView) -> None:
        """Drop the drafter's KV: it met a failure."""
        _trim_draft(self._changing(slot), 0)

    # ------------------------------------------------------------------------------------------------------------------

    def _changing(self, slot: SlotView) -> _Slot:
        """The slot's record, if the current task may change it now."""
        self.owner.check()
        if slot.id in self._in_flight:
            raise SlotInFlight(f"slot {slot.id} is to be changed, and the step that runs names it")
        return self._slots[slot.id]


def _status(slot: _Slot, state_of: Callable[[GenerationKey], State]) -> SlotStatus:
    return SlotStatus(
        id=slot.id,
        state="idle" if slot.owner is None else state_of(slot.owner),
        request_id=slot.owner[0] if slot.owner else None,
        tokens=len(slot.tokens) if slot.owner else 0,
        resident_tokens=len(slot.tokens),
        draft_tokens=slot.draft_length,
    )


def _check_slot(slot: _Slot, context: int) -> None:
    slot.tokens.check_integrity()
    assert len(slot.tokens) <= context, slot
    assert slot.computed_from <= len(slot.tokens), slot
    assert slot.least <= len(slot.tokens), slot
    assert slot.draft_first <= slot.draft_length <= context, slot
    if slot.owner is None:
        assert not slot.staged, slot
        assert slot.draft_length <= len(slot.tokens), slot
        assert not slot.suspect, slot


def _trim_draft(slot: _Slot, length: int) -> None:
    slot.draft_length = min(slot.draft_length, length)
    if slot.draft_length <= slot.draft_first:
        slot.draft_first = slot.draft_length = 0
