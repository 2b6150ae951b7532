"""Records that the slot manager has of those who hold a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import outcome

from actors.core.account import Ledger
from actors.core.commands import Audit, Chunk, CopyPrefix, Submit, WasPreempted
from actors.core.events import Leader
from actors.core.hold import LEAST_IMPORTANT, Hold
from actors.core.life import Event, State
from runtime.errors import DeviceLost
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.kv.pages import PAGE_TOKENS, pages_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.core.account import Account
    from actors.core.commands import KVCommand
    from actors.core.hold import Tail, Ticket
    from actors.core.life import Life
    from actors.core.slot_views import GenerationKey, SlotView
    from actors.core.slots import SlotTable
    from runtime.common.ownership import TaskOwner
    from runtime.kv.rings import Rings
    from runtime.kv.token_chain import TokenChain
    from runtime.step.step import CancelMark


def device_lost(why: str) -> DeviceLost:
    """Return the error for one client: one that is raised in two tasks mixes up their stacks."""
    return DeviceLost(f"{why}; please send the request again")


class HoldRecord:
    """The manager's side of one hold.

    Attributes:
        hold: what its actor has.
        slot, key, mark: its slot, its generation's identity, and the mark of its cancel.
        ledger: its figures.
        granted: the number of the grant of its slot, of all grants there were.
    """

    def __init__(self, ticket: Ticket, slot: SlotView, life: Life, owner: TaskOwner, granted: int = 0) -> None:
        """Begin a hold; `life` has been granted."""
        self.granted = granted
        self.ledger = Ledger(owner, cached=len(slot.tokens))
        self.hold = Hold(ticket, slot, self.ledger)
        self.slot: SlotView = slot
        self.key: GenerationKey = ticket.key
        self.mark: CancelMark = ticket.mark
        self._life = life
        self._owner = owner
        self._pending: Submit | KVCommand | None = None
        self._runs_alone = False
        self._reads_anew = False
        self._leaders: list[tuple[HoldRecord, int]] = []
        self._why_lost = ""
        self._priority = ticket.rank.priority

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """State in its life."""
        return self._life.state

    @property
    def life(self) -> Life:
        """Life of the generation, from the queue on."""
        return self._life

    @property
    def phase(self) -> State:
        """The last phase that it was in."""
        return self._life.phase

    @property
    def priority(self) -> int:
        """Priority: the lower, the earlier."""
        return self._priority

    @property
    def is_warm(self) -> bool:
        """Return whether it reads its prompt ahead of time, while nobody else has work."""
        return self.hold.ticket.is_warm

    @property
    def length(self) -> int:
        """Committed tokens of the slot."""
        return len(self.slot.tokens)

    @property
    def pending(self) -> Submit | KVCommand | None:
        """Command that its actor waits for."""
        return self._pending

    @property
    def submitted(self) -> Submit | None:
        """Rows that its actor waits for; None for one that is cancelled, or waits for nothing or for KV."""
        return self._pending if isinstance(self._pending, Submit) and self.mark.at is None else None

    def needed_capacity(self, draft_start: int) -> int:
        """Return how many positions its slot must have for what its actor waits for; to share takes none."""
        work, prompt = self._pending, len(self.hold.prompt)
        if isinstance(work, Audit):
            return 0
        if isinstance(work, CopyPrefix):  # and one page for what is behind the last that is shared
            return (pages_for(self.length) + 1) * PAGE_TOKENS
        if not isinstance(work, Submit):
            return prompt
        if self.is_led:
            return 0
        start = draft_start if work.phase is State.DRAFT else self.length
        return max(prompt, start + len(work.token_ids))

    @property
    def runs_alone(self) -> bool:
        """Return whether its rows were in a step that raised: each of those runs alone, so only the culprit fails."""
        return self._runs_alone

    @property
    def reads_anew(self) -> bool:
        """Return whether what was cached of its prompt is under suspicion, so that it is read without."""
        return self._reads_anew

    @property
    def may_reuse(self) -> bool:
        """Return whether its next slot may have KV of its sequence: its own, of before it was preempted, or cached."""
        return self.hold.kept > 0 or (self.hold.ticket.reuse and not self._reads_anew)

    @property
    def has_leaders(self) -> bool:
        """Return whether somebody was reading what this prompt shares when the slot was granted."""
        return bool(self._leaders)

    @property
    def leaders(self) -> tuple[Leader, ...]:
        """Leaders, for whoever listens."""
        return tuple(Leader(*leader.key, shared) for leader, shared in self._leaders)

    @property
    def led_by(self) -> list[HoldRecord]:
        """Leaders that are still reading it: it is read once, then copied."""
        return [
            leader
            for leader, shared in self._leaders
            if leader.state is State.PREFILL and leader.mark.at is None and max(leader.length, self.length) < shared
        ]

    def shared_with(self, leader: HoldRecord) -> int:
        """Return how many tokens of its prompt it can have from one of those once they were read; 0 from others."""
        shared = next((length for one, length in self._leaders if one is leader), 0)
        return min(shared, len(self.hold.prompt) - 1)

    @property
    def is_led(self) -> bool:
        """Return whether somebody is still reading it."""
        return bool(self.led_by)

    # --- changes, by the manager's task ------------------------------------------------------------------------------

    def happen(self, event: Event) -> None:
        """Let something happen in its life.

        Raises:
            IllegalTransition: it cannot.
        """
        self._life.take(event)

    def ask(self, command: Submit | KVCommand) -> None:
        """Note that its actor waits for this from now on."""
        self._owner.check()
        self._pending = command

    def clear_pending(self) -> None:
        """Note that its actor waits for nothing any more: it has its answer, or has left."""
        self._owner.check()
        self._pending, self._runs_alone = None, False

    def demote(self) -> None:
        """Be less important than all others from now on."""
        self._owner.check()
        self._priority = LEAST_IMPORTANT

    def run_alone(self) -> None:
        """Note that its rows were in a step that raised."""
        self._owner.check()
        self._runs_alone = True

    def read_anew(self) -> None:
        """Nothing that was cached is used for it any longer."""
        self._owner.check()
        self.ledger.note_restart()
        self.hold.kept, self.hold.tail = 0, None
        self._reads_anew = True

    def preempt(self, tail: Tail | None) -> None:
        """Leave the slot: what its actor waits for is answered when it is back."""
        self._life.take(Event.PREEMPTED)
        work, hold = self._pending, self.hold
        assert isinstance(work, Submit)
        if work.phase is not State.PREFILL:
            unread = work.token_ids[: len(work.token_ids) - len(work.drafts)]
            hold.prompt = self.slot.tokens.head(self.length)
            hold.prompt.extend(unread[-1:] if work.phase is State.DRAFT else unread)
        hold.kept, hold.tail = self.length, tail
        self._leaders.clear()
        self.ledger.note_preempted()

    def go_on_in(self, slot: SlotView, granted: int, seconds: float) -> None:
        """Have a slot again, after so long: what its actor waited for has to be asked anew."""
        self._life.take(Event.GRANTED)
        self.hold.slot = self.slot = slot
        self.granted = granted
        self.ledger.note_back(seconds)
        # Others' KV, for which it is not to fail.
        self.ledger.note_transferred(max(0, len(slot.tokens) - self.hold.kept))
        work = self._pending
        assert isinstance(work, Submit)
        self.clear_pending()
        work.reply.set(outcome.Value(Chunk(0)) if work.phase is State.PREFILL else outcome.Error(WasPreempted()))

    def account_without_slot(self, seconds: float) -> Account:
        """Return the account of one that has ended while it was preempted, for so long by then."""
        self.ledger.note_back(seconds)
        return self.ledger.close(self._life.phase, None, None)

    def follow(self, others: Iterable[HoldRecord], rings: Rings | None = None, piece: int = 0) -> None:
        """Note who is reading a prefix that this prompt shares: it is computed once, then copied.

        Where layers have rings, a prefix can be copied only until its reader is too far ahead.  So it must be one
        piece, of at most `piece` tokens, which goes before the reader's next step; or little may follow it there.
        """
        self._owner.check()
        prompt = self.hold.prompt
        shared = [(leader, leader.hold.prompt.shared_with(prompt)) for leader in others]
        self._leaders = [
            (leader, length)
            for leader, length in shared
            if length >= self.length + BLOCK_TOKENS
            and (rings is None or length - self.length <= piece or len(leader.hold.prompt) - length <= rings.max_rows)
        ]

    def follow_nobody(self) -> None:
        """Note that they have read what is shared, or will not."""
        self._owner.check()
        self._leaders.clear()

    def lose(self, why: str) -> None:
        """The device was lost, and with it what this hold has there; what its actor waits for comes to nothing."""
        if self.state is not State.LOST:
            self._life.take(Event.DEVICE_LOST)
            self._why_lost = why
        if self._pending is not None:
            self._pending.reply.set(outcome.Error(self.loss()))
            self.clear_pending()

    def loss(self) -> DeviceLost:
        """Return the error that the actor of a lost hold gets, whatever it asks for."""
        return device_lost(self._why_lost)

    def close(self, event: Event, slot_freed_at: float) -> Account:
        """End the hold, whose slot is free: its account."""
        self._life.take(event)
        return self.ledger.close(self._life.phase, self.slot.id, slot_freed_at)


class Holds:
    """Everybody who holds a slot, in the order of the grants; the slot manager's task alone changes it.

    Args:
        owner: that task.
        table: of the slots; None for one whose sequences share nothing.
        piece: as for `HoldRecord.follow`.
    """

    def __init__(self, owner: TaskOwner, table: SlotTable | None = None, piece: int = 0) -> None:
        self._owner = owner
        self._rings = None if table is None else table.rings
        self._piece = piece
        self._shares = table is not None and table.rings is None and table.states is None
        self._records: dict[GenerationKey, HoldRecord] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._records)

    def __iter__(self) -> Iterator[HoldRecord]:
        """The oldest first."""
        return iter(self._records.values())

    def shared_with(self, prompt: TokenChain) -> int:
        """Return how many tokens of a prompt, in whole pages, some of these have or are reading, for it to share.

        None where layers have rings or states, of which it is not known before whether they can be had.
        """
        if not self._shares:
            return 0
        limit = len(prompt) - 1
        chains = [one.slot.tokens for one in self]
        chains += [one.hold.prompt for one in self if one.state is State.PREFILL and not one.is_led]
        shared = max((chain.shared_with(prompt) for chain in chains), default=0)
        return min(shared, limit) // PAGE_TOKENS * PAGE_TOKENS

    def get(self, key: GenerationKey) -> HoldRecord | None:
        """Return that of a generation; None if it holds nothing."""
        return self._records.get(key)

    def of(self, ticket: Ticket) -> HoldRecord:
        """Return that of a generation that holds a slot; any other is a bug."""
        record = self._records[ticket.key]
        assert record.hold.ticket is ticket, f"{ticket.key} has left, and another has its name"
        return record

    def add(self, ticket: Ticket, slot: SlotView, life: Life, granted: int = 0) -> HoldRecord:
        """A slot was granted."""
        self._owner.check()
        record = HoldRecord(ticket, slot, life, self._owner, granted)
        if ticket.reuse:
            record.follow(self, self._rings, self._piece)
        self._records[ticket.key] = record
        return record

    def put_back(self, record: HoldRecord) -> None:
        """A slot was granted to one that was preempted: it follows nobody, for one of those may follow it."""
        self._owner.check()
        self._records[record.key] = record

    def remove(self, record: HoldRecord) -> None:
        """A slot was taken back, or left to another."""
        self._owner.check()
        del self._records[record.key]

    def check_integrity(self, slots: Iterable[SlotView]) -> None:
        """Raise AssertionError if holds and slots contradict each other."""
        held = {record.slot.id: record.key for record in self}
        assert len(held) == len(self), "two holds name one slot"
        owned = {slot.id: slot.owner for slot in slots if slot.owner is not None}
        assert held == owned, f"holds {held} and slots {owned} differ"
