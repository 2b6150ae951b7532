"""The slot manager: the one task that owns the slots, the queue and the way to the device.

`SlotManager.turn` is its loop, and the design.  No step of anybody's starts before every cancel that has arrived is
consumed (seed 3), and a slot is released only there, between steps: never while a step that names it is in flight.

Actors change nothing.  They send commands (`actors.core.commands`), which the manager applies; in each method that
changes what it owns stands a check that the manager is at it (`runtime.ownership`).
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import outcome
import trio

from actors.core.account import Account
from actors.core.commands import (
    Audit,
    CopyPrefix,
    DiskHasRoom,
    End,
    Enqueue,
    LoadBlocks,
    Recovered,
    Restart,
    Submit,
    Trim,
    Withdraw,
)
from actors.core.costs import StepCosts
from actors.core.events import ActorPhase, Released
from actors.core.hold import Hold
from actors.core.holds import Holds, device_lost
from actors.core.life import Event, State
from actors.core.mailbox import Mailbox
from actors.core.observer import Observers
from actors.core.receipts import CancelReason, ReceiptLog
from actors.kv.mover import KVMover
from actors.kv.restore import Restoration
from actors.manager.admission import Admission
from actors.manager.device import Device
from actors.manager.recovery import Recovery
from actors.manager.settlement import Settlement
from actors.manager.statistics import ManagerStatistics
from actors.manager.step_planner import StepPlanner
from actors.manager.step_runner import StepCounts, StepRunner
from runtime.errors import DeviceLost, QueueTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from actors.core.commands import Command, KVCommand, QueueCommand, SlotCommand
    from actors.core.hold import Ticket
    from actors.core.slots import GenerationKey, SlotStatus, SlotTable, SlotView
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.planner import ChunkLimits
    from actors.manager.step_planner import Planned
    from runtime.step.executor import Executor
    from runtime.step.step import StepResult

ENDED = "the slot manager has ended"


class SlotManager:
    """See the module's head.  `run` is its task; what is there for actors only reads, or sends a command.

    Args:
        executor: runs the steps; nobody else may use it.
        table: the slots; handed over for good.
        cache: KV outside the slots, with the same owner; handed over for good.
        chunks: limits of prefill chunks.
        queue_limit: how many may wait for a slot.
        epoch: seconds since the epoch at which the executor's clock was 0.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        cache: PrefixCache,
        chunks: ChunkLimits,
        *,
        queue_limit: int,
        epoch: float = 0.0,
    ) -> None:
        self.table = table
        self.cache = cache
        self.observers = Observers()
        self.costs = StepCosts()
        self.receipts = ReceiptLog(epoch=epoch, owner=table.owner)
        self.holds = Holds(table.owner)
        self._counts = StepCounts()
        self._mailbox = Mailbox()
        self._ended = False
        self._device = Device(executor, table)
        self._admission = Admission(table, cache, self.holds, self.observers, limit=queue_limit)
        self._mover = KVMover(self._device, table, cache, self.observers)
        self._planner = StepPlanner(table, cache, chunks, self.costs, self.observers)
        self._steps = StepRunner(self._device, self._counts, self.costs, self.observers)
        self._settlement = Settlement(table, cache, self.observers, self._counts)
        self._recovery = Recovery(
            *(executor, table, cache, self.holds, self._admission, self.observers),
            invalidate=self._settlement.invalidate,
            post=self.post,
        )

    # --- the task -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled."""
        with self.table.owner.claim():
            self.cache.wake = lambda: self.post(DiskHasRoom())
            try:
                async with trio.open_nursery() as helpers:
                    await helpers.start(self._device.run_clerk, self._mailbox, self._serve_queue)
                    while True:
                        try:
                            await self.turn()
                        except DeviceLost as loss:
                            self._recovery.lose(loss)
                            helpers.start_soon(self._recovery.bring_back, loss)
            finally:
                self._end()

    async def turn(self) -> None:
        """One turn of the loop.

        Raises:
            DeviceLost: no step can run now.
        """
        self._drain()
        self._admit()
        moved = await self._move()
        step = self._plan()
        result = await self._run(step)
        self._settle(step, result)
        if moved or step:
            await self._let_actors_submit()
        else:
            await self._mailbox.wait()

    def _drain(self) -> None:
        """Apply all commands that have come, in order."""
        for on_queue in self._mailbox.take_for_queue():
            self._apply_to_queue(on_queue)
        for on_slots in self._mailbox.take_for_slots():
            self._apply_to_slots(on_slots)

    def _admit(self) -> None:
        """Grant free slots to those who wait."""
        self._admission.admit()

    async def _move(self) -> bool:
        """Move a bounded piece of KV out of slots and into them; False if there was none."""
        moved = await self._mover.move(self.holds)
        if moved:
            self._drain()
            self._admit()  # a slot that came free while KV was moved does not wait for this step
        return moved

    def _plan(self) -> list[Planned]:
        """Choose the rows of the next step, from what actors have submitted."""
        return self._planner.plan(self.holds)

    async def _run(self, step: Sequence[Planned]) -> outcome.Outcome[StepResult] | None:
        """Run the step, if it has any rows; cancels take effect inside, at layer boundaries."""
        return await self._steps.run(step) if step else None

    def _settle(self, step: Sequence[Planned], result: outcome.Outcome[StepResult] | None) -> None:
        """Commit what was computed, and answer each of those who were in the step."""
        if result is not None:
            self._settlement.settle(step, result)

    async def _let_actors_submit(self) -> None:
        """Give every actor that was answered its turn, so that batches stay full.

        An actor submits its next rows in the turn in which it wakes.  Trio may run this task before or after it within
        one pass over the runnable tasks, so two passes are enough for all, and no more is waited for than that.
        """
        for _ in range(2):
            if all(record.pending is not None for record in self.holds):
                return
            await trio.lowlevel.checkpoint()
            self._drain()

    def _serve_queue(self) -> None:
        """What the clerk does while the device is busy: a free slot is granted even then, and a queued cancel heard."""
        for command in self._mailbox.take_for_queue():
            self._apply_to_queue(command)
        self._admit()

    # --- commands -----------------------------------------------------------------------------------------------------

    def _apply_to_queue(self, command: QueueCommand) -> None:
        match command:
            case Enqueue():
                self._admission.enqueue(command)
            case Withdraw(ticket, reason):
                self._admission.withdraw(ticket)
                self._close(ticket, reason, Account())

    def _apply_to_slots(self, command: SlotCommand) -> None:
        match command:
            case Recovered():
                self._recovery.end(command)
            case End(hold, reason):
                self._release(hold, reason)
            case Trim(hold, length):
                self.table.trim(hold.slot, min(length, hold.length))
            case DiskHasRoom():
                self.cache.write_behind.offer()
            case Submit() | CopyPrefix() | LoadBlocks() | Audit() | Restart():
                self._apply_for_answer(command)

    def _apply_for_answer(self, command: Submit | KVCommand | Restart) -> None:
        """Apply a command whose sender waits for the answer."""
        record = self.holds.of(command.hold)
        if record.state is State.LOST:
            command.reply.set(outcome.Error(record.loss()))
            return
        if not isinstance(command, Restart):
            record.ask(command)
            return
        record.happen(Event.RESTARTED)
        self.cache.verdicts.strike(command.restored)
        self._settlement.invalidate(record)
        record.ledger.note_restart()
        command.reply.set(outcome.Value(None))

    def _release(self, hold: Hold, reason: CancelReason | None) -> None:
        record, slot = self.holds.of(hold), hold.slot
        if slot.suspect:
            self._settlement.invalidate(record)
        held_until = trio.current_time() + self.cache.config.hold_seconds if reason is not None else 0.0
        self.table.release(slot, held_until)
        if not self.cache.waiting.any_of(slot.id):  # else what this hold has not overwritten yet is still to be kept
            self.cache.leave(slot.id, slot.resident(), held_until)
        self.holds.remove(record)
        account = record.close(Event.FINISHED if reason is None else Event.CANCELLED, self.now())
        self._close(hold.ticket, reason, account)

    def _close(self, ticket: Ticket, reason: CancelReason | None, account: Account) -> None:
        """The last thing that happens to a generation: its receipt, if it was cancelled, and its account."""
        if reason is not None:
            receipt = self.receipts.write(ticket, reason, account)
            if self.observers.receipt:
                self.observers.tell(self.observers.receipt, receipt)
        ticket.ended.set(outcome.Value(account))
        if self.observers.released:
            event = Released(*ticket.key, account.slot, reason, account.computed, account.committed)
            self.observers.tell(self.observers.released, event)

    def _end(self) -> None:
        """The task ends, so nobody may be left waiting for it; usually nobody is."""
        self._ended = True
        self.cache.wake = self.cache.write_behind.offer
        for command in (*self._mailbox.take_for_queue(), *self._mailbox.take_for_slots()):
            _refuse(command)
        self._admission.turn_away(ENDED)
        for ticket in self._admission.tickets:
            ticket.ended.set(outcome.Value(Account()))
        for record in self.holds:
            record.lose(ENDED)
            record.hold.ticket.ended.set(outcome.Value(Account()))

    # --- for actors ---------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The executor's clock, which marks, steps and receipts share."""
        return self._device.clock()

    def post(self, command: Command) -> None:
        """Put a command into the mailbox; once the manager has ended it is refused at once."""
        if self._ended:
            _refuse(command)
        else:
            self._mailbox.post(command)

    async def enqueue(self, tickets: Sequence[Ticket]) -> None:
        """Give every ticket a place in the queue, or none of them.

        The answer comes at once, also while a step runs, so it is waited for shielded: no cancel can come between a
        place in the queue and whoever is to hold it.  A slot that is free is granted with it, so that its first rows
        are in the very next step.

        Raises:
            QueueFull: too many wait already.
            DeviceLost: no step can run, and perhaps none ever will.
        """
        command = Enqueue(tickets)
        self.post(command)
        with trio.CancelScope(shield=True):
            await command.reply.wait()

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
        except Exception:
            reason = CancelReason.FAULT
            raise
        finally:
            if reason is not None:
                ticket.note_cancel()
            if hold is not None:
                ticket.turn_to(ActorPhase.LEAVING)
            self.post(Withdraw(ticket, reason) if hold is None else End(hold, reason))
            with trio.CancelScope(shield=True):
                await ticket.ended.wait()

    def restoration(self, hold: Hold) -> Restoration:
        """Return what brings cached KV of the prompt into a slot."""
        return Restoration(hold, self.table, self.cache)

    def draft_start(self, slot: SlotView) -> int:
        """The first position that the drafter has not read and can read."""
        return self.table.draft_start(slot)

    def neighbours(self, hold: Hold) -> int:
        """How many others generate tokens now, and so have rows in most steps."""
        return sum(record.hold is not hold and record.phase is not State.PREFILL for record in self.holds)

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> str | None:
        """Why no step can run; None while steps can."""
        return ENDED if self._ended else self._recovery.lost

    @property
    def counts(self) -> StepCounts:
        """What ran since the start; not to be changed."""
        return self._counts

    @property
    def queue(self) -> Sequence[Ticket]:
        """The tickets that wait for a slot, the next first."""
        return self._admission.tickets

    @property
    def unread(self) -> int:
        """Commands that have not been applied."""
        return len(self._mailbox)

    def state_of(self, ticket: Ticket) -> State:
        """Where a generation is; one that was lost is shown in the phase that it was in."""
        record = self.holds.get(ticket.key)
        if record is not None:
            return record.phase
        return State.DONE if ticket.ended.is_set else State.QUEUED

    def slot_of(self, ticket: Ticket) -> int | None:
        """Which slot a generation holds; None if it holds none."""
        record = self.holds.get(ticket.key)
        return None if record is None else record.slot.id

    def slots(self) -> Iterator[SlotStatus]:
        """Every slot as a frozen snapshot, made when its turn comes."""
        return self.table.status(self._phase_of)

    def statistics(self) -> ManagerStatistics:
        """Counts since the start, and what is held now."""
        counts = self._counts
        return ManagerStatistics(
            steps=counts.steps,
            rows=counts.decode_tokens + counts.prefill_tokens,
            decode_tokens=counts.decode_tokens,
            prefill_tokens=counts.prefill_tokens,
            failed_steps=counts.failed,
            queued=len(self.queue),
            leased=len(self.holds),
            slots=len(self.table),
            cache=self.cache.statistics(),
            cancels={reason.value: count for reason, count in self.receipts.counts.items()},
            device_losses=self._recovery.losses,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if slots, holds, queue and receipts contradict one another."""
        self.table.check_integrity()
        self.cache.check_integrity()
        self.holds.check_integrity(self.table)
        assert all(self.holds.get(ticket.key) is None for ticket in self.queue), "one who waits for a slot holds one"
        self.receipts.check_integrity()

    def _phase_of(self, key: GenerationKey) -> State:
        record = self.holds.get(key)
        assert record is not None, f"a slot is owned by {key}, who does not hold it"
        return record.phase


async def _granted(ticket: Ticket, patience: float | None) -> Hold:
    """Wait for the grant, so many seconds."""
    if not ticket.granted.is_set:
        ticket.turn_to(ActorPhase.WAITING)
    with trio.move_on_after(math.inf if patience is None else patience):
        return await ticket.granted.wait(ticket.note_cancel)
    raise QueueTimeout(f"no slot came free within {patience:g} s", retry_after=patience)


def _refuse(command: Command) -> None:
    """Answer a command that nobody will apply."""
    match command:
        case Withdraw(ticket) | End(Hold(ticket)):
            ticket.ended.set(outcome.Value(Account()))
        case Enqueue() | Submit() | CopyPrefix() | LoadBlocks() | Audit() | Restart():
            command.reply.set(outcome.Error(device_lost(ENDED)))
