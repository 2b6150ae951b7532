"""Application of each command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import outcome
import trio

from actors.core.account import Account
from actors.core.commands import (
    Audit,
    CopyPrefix,
    Demote,
    DiskHasSpace,
    End,
    Enqueue,
    LoadBlocks,
    Recovered,
    Restart,
    Submit,
    Trim,
    Withdraw,
)
from actors.core.events import Demoted, Released
from actors.core.hold import LEAST_IMPORTANT
from actors.core.holds import device_lost
from actors.core.life import Event, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core.commands import Command, KVCommand, QueueCommand, SlotCommand
    from actors.core.hold import Ticket
    from actors.core.holds import HoldRecord, Holds
    from actors.core.observer import Observers
    from actors.core.receipts import CancelReason
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.admission import Admission
    from actors.manager.receipt_log import ReceiptLog
    from actors.manager.recovery import Recovery
    from actors.manager.settlement import Settlement
    from actors.preemption.preemption import Preemption


class Dispatch:
    """Applies commands.  Part of the slot manager: called by its task, or its queue server, and by nobody else.

    Args:
        table, cache, holds, receipts, observers, admission, preemption, settlement, recovery: the manager's.
        now: the executor's clock.
    """

    def __init__(
        self,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        receipts: ReceiptLog,
        observers: Observers,
        *,
        admission: Admission,
        preemption: Preemption,
        settlement: Settlement,
        recovery: Recovery,
        now: Callable[[], float],
    ) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._receipts = receipts
        self._observers = observers
        self._admission = admission
        self._preemption = preemption
        self._settlement = settlement
        self._recovery = recovery
        self._now = now

    def apply_to_queue(self, command: QueueCommand) -> None:
        """Apply a command that concerns the queue alone: at any time."""
        match command:
            case Enqueue():
                self._admission.enqueue(command)
            case Withdraw(ticket, reason):
                preempted = self._admission.withdraw(ticket)
                self._close(ticket, reason, Account() if preempted is None else self._preemption.end(preempted))
                if preempted is not None:
                    self._cache.salvaged.leave(preempted.hold.prompt, preempted.ledger.computed_at)
            case Demote(tickets):
                for ticket in tickets:
                    self._demote(ticket)

    def apply_to_slots(self, command: SlotCommand) -> None:
        """Apply a command that concerns slots: between two steps."""
        match command:
            case Recovered():
                self._recovery.end(command)
            case End(ticket, reason):
                self._release(self._holds.of(ticket), reason)
            case Trim(ticket, length):
                record = self._holds.of(ticket)
                self._table.trim(record.slot, min(length, record.length))
            case DiskHasSpace():
                self._cache.write_behind.offer()
            case Submit() | CopyPrefix() | LoadBlocks() | Audit() | Restart():
                self._apply_for_answer(command)

    def _demote(self, ticket: Ticket) -> None:
        """Let a generation be less important than all others, wherever it is."""
        if (record := self._holds.get(ticket.key)) is not None:
            record.demote()
        elif not self._admission.demote(ticket):
            return  # it has ended
        if self._observers.demoted:
            self._observers.tell(self._observers.demoted, Demoted(*ticket.key, LEAST_IMPORTANT))

    def _apply_for_answer(self, command: Submit | KVCommand | Restart) -> None:
        """Apply a command whose sender waits for the answer."""
        record = self._holds.of(command.ticket)
        if record.state is State.LOST:
            command.reply.set(outcome.Error(record.loss()))
        elif isinstance(command, Restart):
            record.happen(Event.RESTARTED)
            self._cache.invalidation.invalidate(command.restored)
            self._settlement.invalidate(record)
            record.read_anew()
            command.reply.set(outcome.Value(None))
        else:
            record.ask(command)

    def _release(self, record: HoldRecord, reason: CancelReason | None) -> None:
        slot = record.slot
        if slot.suspect:
            self._settlement.invalidate(record)
        held_until = trio.current_time() + self._cache.config.hold_seconds if reason is not None else 0.0
        self._table.release(slot, held_until)
        if not self._cache.waiting.any_of(slot.id):  # else what this hold has not overwritten yet is still to be kept
            self._cache.leave(slot.id, slot.resident(), held_until)
        self._table.pages.fit(slot, self._cache.waiting.end(slot.id))
        self._holds.remove(record)
        self._preemption.forget(record)
        account = record.close(Event.FINISHED if reason is None else Event.CANCELLED, self._now())
        self._close(record.hold.ticket, reason, account)
        if reason is not None:  # last: of a long prompt it takes milliseconds
            self._cache.salvaged.leave(slot.tokens, record.ledger.computed_at)

    def _close(self, ticket: Ticket, reason: CancelReason | None, account: Account) -> None:
        """End a generation: write its receipt, if it was cancelled, and hand out its account."""
        self._admission.settle(ticket, account)
        if reason is not None:
            receipt = self._receipts.write(ticket, reason, account)
            if self._observers.receipt:
                self._observers.tell(self._observers.receipt, receipt)
        ticket.place.is_left = True
        ticket.ended.set(outcome.Value(account))
        if self._observers.released:
            event = Released(*ticket.key, account.slot, reason, account.computed, account.committed)
            self._observers.tell(self._observers.released, event)


def refuse(command: Command, why: str) -> None:
    """Answer a command that nobody will apply."""
    match command:
        case Withdraw(ticket) | End(ticket):
            ticket.ended.set(outcome.Value(Account()))
        case Enqueue() | Submit() | CopyPrefix() | LoadBlocks() | Audit() | Restart():
            command.reply.set(outcome.Error(device_lost(why)))
