"""Handle that requests have of the slot manager: they look, send commands, and await the answers."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from actors.core.commands import Demote, End, Enqueue, Withdraw
from actors.core.events import ActorStage
from actors.core.life import State
from actors.core.receipts import CancelReason
from actors.kv.restore import Restoration
from runtime.errors import DeadlineExceeded, QueueTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from actors.core.commands import Command
    from actors.core.hold import Hold, Ticket
    from actors.core.holds import Holds
    from actors.core.mailbox import Mailbox
    from actors.core.observer import Observers
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.preemption.preemption import Preemption


class Handle:
    """Changes nothing: any task may call it.

    Args:
        mailbox, table, cache, holds, observers, preemption: the manager's.
        now: the executor's clock, which marks, steps and receipts share.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        observers: Observers,
        preemption: Preemption,
        *,
        now: Callable[[], float],
    ) -> None:
        self.observers = observers
        self._preemption = preemption
        self.now = now
        self._mailbox = mailbox
        self._table = table
        self._cache = cache
        self._holds = holds

    # --- commands -----------------------------------------------------------------------------------------------------

    def post(self, command: Command) -> None:
        """Put a command into the mailbox; once the manager has ended it is refused at once."""
        self._mailbox.post(command)

    async def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Give every ticket a place in the queue, or none of them.

        The answer comes at once, also while a step runs, so it is waited for shielded: no cancel can come between a
        place in the queue and whoever is to wait there.  A slot that is free is granted with it, so that its first rows
        are in the very next step.

        Raises:
            QueueFull: too many wait already.
            DeadlineExceeded: one of them cannot be served in time, however soon it is.
            DeviceLost: no step can run, and perhaps none ever will.
        """
        command = Enqueue(tickets)
        self.post(command)
        with trio.CancelScope(shield=True):
            await command.reply.wait()

    def demote(self, tickets: Sequence[Ticket]) -> None:
        """Have these be less important than all others from now on."""
        self.post(Demote(tickets))

    @asynccontextmanager
    async def hold(
        self, ticket: Ticket, *, queue_timeout: float | None, cancel_reason: Callable[[], CancelReason]
    ) -> AsyncIterator[Hold]:
        """Wait for the grant of an enqueued ticket, and hold the slot until the scope ends, however it ends.

        Leaving waits, shielded, until the manager has taken the slot back: at most one step, of which this hold's rows
        run at most one more layer.  Then `ticket.ended` has the account.

        Args:
            ticket: enqueued.
            queue_timeout: seconds to wait for the grant.
            cancel_reason: asked for the receipt when the scope is left by a cancel.

        Raises:
            QueueTimeout: no grant came in time.
            DeadlineExceeded: no grant came early enough for the deadline to be met.
            DeviceLost: the device was lost, and with it what was held or waited for.
        """
        hold, reason = None, None
        try:
            hold = await _granted(ticket, queue_timeout)
            yield hold
        except trio.Cancelled:
            reason = cancel_reason()
            raise
        except QueueTimeout:
            reason = CancelReason.QUEUE_TIMEOUT
            raise
        except DeadlineExceeded:
            reason = CancelReason.DEADLINE
            raise
        except Exception:
            reason = CancelReason.FAULT
            raise
        finally:
            if reason is not None:
                ticket.note_cancel()
            if hold is not None:
                ticket.turn_to(ActorStage.LEAVING)
            is_preempted = self._preemption.record(ticket.key) is not None
            self.post(Withdraw(ticket, reason) if hold is None or is_preempted else End(ticket, reason))
            with trio.CancelScope(shield=True):
                await ticket.ended.wait()

    # --- looking in ---------------------------------------------------------------------------------------------------

    def restoration(self, hold: Hold) -> Restoration:
        """Return what brings cached KV of the prompt into a slot."""
        return Restoration(hold, self._table, self._cache)

    def draft_start(self, slot: SlotView) -> int:
        """Return the first position that the drafter has not read and can read."""
        return self._table.draft_start(slot)

    def neighbours(self, hold: Hold) -> int:
        """Count the others that generate tokens now, and so have rows in most steps."""
        return sum(record.hold is not hold and record.phase is not State.PREFILL for record in self._holds)

    def state_of(self, ticket: Ticket) -> State:
        """Return where a generation is; one that was lost is shown in the phase that it was in."""
        record = self._holds.get(ticket.key)
        if record is not None:
            return record.phase
        if self._preemption.record(ticket.key) is not None:
            return State.PREEMPTED
        return State.DONE if ticket.ended.is_set else State.QUEUED

    def preemptions_of(self, ticket: Ticket) -> tuple[int, float]:
        """Return how often a generation was preempted, and for how many seconds until now."""
        if ticket.ended.is_set:
            return ticket.ended.value.preemptions, ticket.ended.value.preempted_seconds
        record = self._holds.get(ticket.key) or self._preemption.record(ticket.key)
        if record is None:
            return 0, 0.0
        return record.ledger.preemptions, record.ledger.preempted_seconds + self._preemption.seconds(ticket.key)

    def slot_of(self, ticket: Ticket) -> int | None:
        """Return which slot a generation holds; None if it holds none."""
        record = self._holds.get(ticket.key)
        return None if record is None else record.slot.id


async def _granted(ticket: Ticket, patience: float | None) -> Hold:
    """Wait for the grant, so many seconds."""
    if not ticket.granted.is_set:
        ticket.turn_to(ActorStage.WAITING)
    with trio.move_on_after(math.inf if patience is None else patience):
        return await ticket.granted.wait(ticket.note_cancel)
    raise QueueTimeout(f"no slot came free within {patience:g} s", retry_after=patience)
