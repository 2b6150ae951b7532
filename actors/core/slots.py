"""The slot table: who has which slot, and which tokens' KV is valid in it.

State and everything that changes it, in one class with one owner, the slot manager.  A slot's `tokens` are exactly
those whose KV is committed: there is no second record that could disagree with them (seed 5).  Sequences are compared
by the names of their blocks, so that what a long one costs is the same as what a short one does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.kv.token_chain import TokenChain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.kv.blocks import BlockKey


class SlotState(enum.StrEnum):
    """What the sequence in a slot is doing."""

    IDLE = "idle"
    PREFILL = "prefill"
    DECODE = "decode"
    DRAFT = "draft"
    VERIFY = "verify"


_NEXT_STATES: dict[SlotState, frozenset[SlotState]] = {
    SlotState.IDLE: frozenset({SlotState.PREFILL}),
    SlotState.PREFILL: frozenset(
        {SlotState.PREFILL, SlotState.DECODE, SlotState.DRAFT, SlotState.VERIFY, SlotState.IDLE}
    ),
    SlotState.DECODE: frozenset({SlotState.DECODE, SlotState.DRAFT, SlotState.VERIFY, SlotState.IDLE}),
    SlotState.DRAFT: frozenset({SlotState.DRAFT, SlotState.VERIFY, SlotState.DECODE, SlotState.IDLE}),
    SlotState.VERIFY: frozenset({SlotState.DRAFT, SlotState.VERIFY, SlotState.DECODE, SlotState.IDLE}),
}


class IllegalTransition(Exception):
    """A bug in the engine: a slot was asked to do what its state does not allow."""


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """What a slot holds, and where that came from.

    Attributes:
        tokens: whose KV it is.
        trial: the blocks among it that were restored, and that no step has run over yet.
        stands_on: the names of all blocks that it came from, or may have been computed after.
    """

    tokens: TokenChain
    trial: frozenset[BlockKey] = frozenset()
    stands_on: frozenset[BlockKey] = frozenset()


@dataclass(slots=True, eq=False)
class Slot:
    """One place for a running sequence."""

    id: int
    tokens: TokenChain  # committed; resident after release
    owner: tuple[str, int] | None = None  # (request id, generation index) of the lease
    state: SlotState = SlotState.IDLE
    last_used: int = 0  # the table's grant count at the last release
    held_until: float = 0.0  # a cancel left these tokens, and its retry may come until then
    before: Resident | None = None  # what it held at the last grant, which displaced some of that
    trial: list[BlockKey] = field(default_factory=list)  # restored blocks that no step has run over yet
    stands_on: set[BlockKey] = field(default_factory=set)  # all blocks that its KV came from, or may be computed after
    suspect: bool = False  # an audit of another lease's found one of them wrong
    computed_from: int = 0  # the KV from here on was computed in this slot, what is before it was moved in
    draft_first: int = 0  # the drafter's KV is that of the tokens from here …
    draft_length: int = 0  # … to here, which during a round is beyond the committed tokens

    def resident(self) -> Resident:
        """What it holds now, which does not change with it."""
        return Resident(self.tokens.head(len(self.tokens)), frozenset(self.trial), frozenset(self.stands_on))


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A slot as `GET /slots` shows it.

    `tokens` counts the leased sequence, `resident_tokens` what is reusable, and `draft_tokens` how far the drafter has
    read: at rest no farther than the resident ones.
    """

    id: int
    state: SlotState
    request_id: str | None
    tokens: int
    resident_tokens: int
    draft_tokens: int


class SlotTable:
    """All slots of one device.

    Args:
        slots, context: how many, and tokens in each.
        root: of the tokens' chains.
        drafts_from_states: the drafter goes on from the target's hidden states (an MTP module), so it can read only
            what the target has computed, and its rows that ran ahead of the target do not last.
    """

    def __init__(self, slots: int, context: int, *, root: BlockKey = b"", drafts_from_states: bool = False) -> None:
        self.context = context
        self._drafts_from_states = drafts_from_states
        self._slots = [Slot(i, TokenChain(root)) for i in range(slots)]
        self._grants = 0

    def __len__(self) -> int:
        return len(self._slots)

    def slot(self, slot_id: int) -> Slot:
        """The slot of that id."""
        return self._slots[slot_id]

    @property
    def free(self) -> list[Slot]:
        """The slots that nobody leases."""
        return [slot for slot in self._slots if slot.owner is None]

    @property
    def leased(self) -> list[Slot]:
        """The others."""
        return [slot for slot in self._slots if slot.owner is not None]

    def grant(self, owner: tuple[str, int], prompt: TokenChain, *, reuse: bool = True, now: float = 0.0) -> Slot | None:
        """Lease the free slot that serves `prompt` at the least cost; its `tokens` are then the part already there.

        At least the prompt's last token is left to compute, because its logits are wanted.  A slot whose tokens are
        held for a retry goes to another prompt only if there is no other.  None if no slot is free.
        """
        candidates = [(slot, self._usable(slot, prompt) if reuse else 0) for slot in self.free]
        if not candidates:
            return None
        slot, usable = min(candidates, key=lambda candidate: self._cost(candidate[0], candidate[1], len(prompt), now))
        self._grants += 1
        slot.before = slot.resident()
        slot.tokens = slot.tokens.head(usable)
        self.trim(slot, usable)
        slot.owner = owner
        self.enter(slot, SlotState.PREFILL)
        return slot

    def longest_live_prefix(self, prompt: TokenChain, *, besides: Slot | None) -> tuple[Slot | None, int]:
        """The other slot whose committed tokens share most with `prompt`, and how many; none under suspicion."""
        others = [slot for slot in self._slots if slot is not besides and not slot.suspect]
        shared = [(slot, slot.tokens.shared_with(prompt)) for slot in others]
        return max(shared, key=lambda source: source[1], default=(None, 0))

    def enter(self, slot: Slot, state: SlotState) -> None:
        """Move a slot to its next state.

        Raises:
            IllegalTransition: the table above does not have it.
        """
        if state not in _NEXT_STATES[slot.state]:
            raise IllegalTransition(f"slot {slot.id}: {slot.state} to {state}")
        slot.state = state

    def commit(self, slot: Slot, token_ids: Sequence[int], *, moved: bool = False) -> None:
        """Record that the KV of `token_ids`, which follow the slot's tokens, is valid; `moved` in or computed there."""
        slot.tokens.extend(token_ids)
        if moved:
            slot.computed_from = len(slot.tokens)

    def trim(self, slot: Slot, length: int) -> None:
        """Keep the first `length` tokens, in the drafter's KV as well; no trace is left of a slot without any."""
        slot.tokens.truncate(length)
        slot.computed_from = min(slot.computed_from, length)
        self._trim_draft(slot, length)
        if not length:
            slot.trial.clear()
            slot.stands_on.clear()
            slot.suspect = False

    def invalidate(self, slot: Slot) -> None:
        """Forget every token of a slot: its KV met a failure."""
        self.trim(slot, 0)

    def draft_start(self, slot: Slot) -> int:
        """The first position that the drafter has not read and can read."""
        return max(slot.draft_length, slot.computed_from + 1) if self._drafts_from_states else slot.draft_length

    def commit_draft(self, slot: Slot, start: int, rows: int) -> None:
        """Record that the drafter's KV of `rows` tokens from `draft_start` on is valid."""
        slot.draft_first = self.draft_first(slot, start)
        slot.draft_length = start + rows

    def draft_first(self, slot: Slot, start: int) -> int:
        """The first position of which the drafter has KV, once it has read on from `start`."""
        return slot.draft_first if start == slot.draft_length and start else start

    def end_round(self, slot: Slot, start: int) -> None:
        """A step has committed rows from `start` on: trim the drafter's KV to what is still that of these tokens."""
        self._trim_draft(slot, start + 1 if self._drafts_from_states else len(slot.tokens))

    def forget_draft(self, slot: Slot) -> None:
        """Drop the drafter's KV: it met a failure."""
        self._trim_draft(slot, 0)

    def _trim_draft(self, slot: Slot, length: int) -> None:
        slot.draft_length = min(slot.draft_length, length)
        if slot.draft_length <= slot.draft_first:
            slot.draft_first = slot.draft_length = 0

    def release(self, slot: Slot, held_until: float = 0.0) -> None:
        """End the lease.  The committed tokens stay resident, and on trial if they still were."""
        self._trim_draft(slot, len(slot.tokens))
        self.enter(slot, SlotState.IDLE)
        slot.owner = None
        slot.held_until = held_until
        slot.last_used = self._grants

    def status(self) -> Iterator[SlotStatus]:
        """Every slot as a frozen snapshot, made when its turn comes: there may be thousands."""
        for slot in self._slots:
            yield SlotStatus(
                id=slot.id,
                state=slot.state,
                request_id=slot.owner[0] if slot.owner else None,
                tokens=len(slot.tokens) if slot.owner else 0,
                resident_tokens=len(slot.tokens),
                draft_tokens=slot.draft_length,
            )

    def check_integrity(self) -> None:
        """Raise AssertionError if the table contradicts itself."""
        owners = [slot.owner for slot in self._slots if slot.owner is not None]
        assert len(owners) == len(set(owners)), f"one lease holds two slots: {owners}"
        for slot in self._slots:
            assert (slot.owner is None) == (slot.state is SlotState.IDLE), slot
            slot.tokens.check_integrity()
            assert len(slot.tokens) <= self.context, slot
            assert slot.computed_from <= len(slot.tokens), slot
            assert slot.draft_first <= slot.draft_length <= self.context, slot
            assert slot.owner is not None or slot.draft_length <= len(slot.tokens), slot
            assert slot.owner is not None or not slot.suspect, slot

    def _usable(self, slot: Slot, prompt: TokenChain) -> int:
        return min(slot.tokens.shared_with(prompt), len(prompt) - 1)

    def _cost(self, slot: Slot, usable: int, prompt_length: int, now: float) -> tuple[bool, float, int]:
        """Tokens to compute now, plus the resident ones lost, which weigh less the longer nobody wanted them."""
        age = self._grants - slot.last_used
        lost = len(slot.tokens) - usable
        robbed = lost > usable and slot.held_until > now
        return robbed, (prompt_length - usable) + lost / (1 + age), slot.last_used
