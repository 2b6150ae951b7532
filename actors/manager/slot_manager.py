"""The slot manager: the one task that owns the slots, the queue and the way to the device.

`SlotManager.turn` is its loop, and the design.  No step of anybody's starts before every cancel that has arrived is
consumed (seed 3), and a slot is released only there, between steps: never while a step that names it is in flight.

Actors change nothing.  They send commands (`actors.core.commands`), which the manager applies; in each method that
changes what it owns stands a check that the manager is at it (`runtime.common.ownership`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import outcome
import trio

from actors.core.account import Account
from actors.core.commands import DiskHasSpace
from actors.core.holds import Holds
from actors.core.mailbox import Mailbox
from actors.core.observer import Observers
from actors.core.receipts import WallClock
from actors.kv.transfers import KVTransfers
from actors.manager.admission import Admission
from actors.manager.device import Device
from actors.manager.dispatch import Dispatch, refuse
from actors.manager.handle import Handle
from actors.manager.receipt_log import ReceiptLog
from actors.manager.recovery import Recovery
from actors.manager.settlement import Settlement
from actors.manager.statistics import ManagerStatistics
from actors.manager.step_runner import StepCounts, StepRunner
from actors.preemption.preemption import Preemption
from actors.scheduling.bursts import Bursts
from actors.scheduling.costs import StepCosts
from actors.scheduling.step_planner import StepPlanner
from runtime.errors import DeviceLost
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.core.hold import Ticket
    from actors.core.life import State
    from actors.core.slot_views import GenerationKey, SlotStatus
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.scheduling.planner import ChunkLimits
    from actors.scheduling.step_planner import Planned
    from runtime.step.executor import Executor
    from runtime.step.job import Burst

ENDED = "the slot manager has ended"


class SlotManager:
    """See the module's head.  `run` is its task; everything else that is public only looks.

    Attributes:
        table, cache, holds, preemption, receipts: what it owns, to be looked at.
        costs: of steps, learnt from those that ran.
        observers: are told what happens.
        handle: what requests have of the manager.
        wall: the time in seconds since the epoch, as the receipts have it; in any thread.

    Args:
        executor: runs the steps; nobody else may use it.
        table: the slots; handed over for good.
        cache: KV outside the slots, with the same owner; handed over for good.
        chunks: limits of prefill chunks.
        burst_seconds: that steps may take which follow one another on the device; None for step by step.
        queue_limit: how many may wait for a slot.
        ageing: seconds that count as one level of priority for a class of the queue that is passed over.
        preemption: who is more important takes slots of those who are less so.
        position_bytes: of the KV of one position of the pool; 0 where that is not known.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        cache: PrefixCache,
        chunks: ChunkLimits,
        *,
        burst_seconds: float | None = None,
        queue_limit: int,
        ageing: float = 3.0,
        preemption: bool = True,
        position_bytes: int = 0,
    ) -> None:
        self.table = table
        self.cache = cache
        self.observers = Observers()
        self.costs = StepCosts()
        self.wall = WallClock(executor.clock, executor.wall_clock)
        self.receipts = ReceiptLog(self.wall.at, owner=table.owner)
        self.holds = Holds(table.owner, table, cache.piece_blocks * BLOCK_TOKENS)
        self._counts = StepCounts()
        self._chunks, self._position_bytes = chunks, position_bytes
        self._mailbox = Mailbox()
        self._device = Device(executor, table)
        self.preemption = Preemption(table, cache, self.holds, self.observers, is_on=preemption, now=executor.clock)
        self._admission = Admission(
            table, cache, self.holds, self.preemption, self.observers, self.costs, limit=queue_limit, ageing=ageing
        )
        self._transfers = KVTransfers(self._device, table, cache, self.observers)
        self._planner = StepPlanner(table, chunks, self.costs, cache.waiting.any_of)
        self._bursts = Bursts(burst_seconds, self._mailbox.watch, self.costs.target, table.rings)
        self._steps = StepRunner(self._device, self._counts, self.costs, self.observers)
        self._settlement = Settlement(table, cache, self.observers, self._counts)
        self._recovery = Recovery(
            executor,
            table,
            cache,
            self.holds,
            self._admission,
            self.observers,
            invalidate=self._settlement.invalidate,
            post=self._mailbox.post,
        )
        self._dispatch = Dispatch(
            table,
            cache,
            self.holds,
            self.receipts,
            self.observers,
            admission=self._admission,
            preemption=self.preemption,
            settlement=self._settlement,
            recovery=self._recovery,
            now=executor.clock,
        )
        self.handle = Handle(
            self._mailbox, table, cache, self.holds, self.observers, self.preemption, now=executor.clock
        )

    # --- the task -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled."""
        with self.table.owner.claim():
            self.cache.wake = partial(self._mailbox.post, DiskHasSpace())
            try:
                async with trio.open_nursery() as helpers:
                    await helpers.start(self._device.run_queue_server, self._mailbox, self._serve_queue)
                    while True:
                        try:
                            await self.turn()
                        except DeviceLost as loss:
                            self._recovery.lose(loss)
                            helpers.start_soon(self._recovery.bring_back, loss)
            finally:
                self._end()

    async def turn(self) -> None:
        """Serve once everything that has come, by at most one move of KV and one step; wait where there is nothing.

        Raises:
            DeviceLost: no step can run now.
        """
        self._drain()
        self._admit()
        transferred = await self._transfer()
        step = self._plan(has_transferred=transferred)
        await self._run(step, None if transferred else self._bursts.after(step, self.holds))
        if transferred or step:
            await self._let_actors_submit()
        else:
            await self._mailbox.wait()

    def _drain(self) -> None:
        """Apply all commands that have come, in order."""
        for on_queue in self._mailbox.take_for_queue():
            self._dispatch.apply_to_queue(on_queue)
        for on_slots in self._mailbox.take_for_slots():
            self._dispatch.apply_to_slots(on_slots)

    def _admit(self) -> None:
        """Grant free slots to those who wait, and then, between two steps, those of who is less important."""
        self.preemption.settle()
        self._admission.admit()
        self._admission.preempt_for_waiting()

    async def _transfer(self) -> bool:
        """Make room for sequences, and move a bounded piece of KV; False if there was none to move, and is none now."""
        self._ensure_capacity()
        transferred = await self._transfers.run(self.holds)
        if transferred or len(self.preemption):  # who is preempted may have waited for what was to be copied, or let go
            self._drain()
            self._admit()  # a slot that came free while KV was moved does not wait for this step
            self._ensure_capacity()
        return transferred

    def _ensure_capacity(self) -> None:
        """Make room for sequences; where more is promised than there is, the last to come leave their slots."""
        leaving = self.preemption
        while self._transfers.ensure_capacity(self.holds, leaving.can_leave) and (last := leaving.last()) is not None:
            self._admission.wait_again(last, by=None)

    def _plan(self, *, has_transferred: bool) -> list[Planned]:
        """Choose the rows of the next step, from what actors have submitted; none, at times, where KV has moved."""
        self._settlement.hand_back(self.holds)
        return self._planner.plan(self.holds, has_transferred=has_transferred)

    async def _run(self, step: Sequence[Planned], burst: Burst | None) -> None:
        """Run the step, if it has any rows, and those that may follow at once, in which all goes on as it is.

        Cancels take effect inside, at layer boundaries.  What was computed is committed, and each of those who were in
        the step is answered, while what follows on it runs already.
        """
        while step:
            step = self._settlement.settle(step, await self._steps.run(step, burst))

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
        """Apply what has come for the queue, and grant what is free: for the queue server, while the device is busy."""
        for command in self._mailbox.take_for_queue():
            self._dispatch.apply_to_queue(command)
        self._admission.admit()

    def _end(self) -> None:
        """End, so that nobody is left waiting; usually nobody waits."""
        self.cache.wake = self.cache.write_behind.offer
        self._mailbox.close(partial(refuse, why=ENDED))
        self._admission.turn_away(ENDED)
        for record in self.holds:
            record.lose(ENDED)
        for ticket in (*self._admission.tickets, *(record.hold.ticket for record in self.holds)):
            ticket.ended.set(outcome.Value(Account()))

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> str | None:
        """Return why no step can run; None while steps can."""
        return ENDED if self._mailbox.is_closed else self._recovery.lost

    @property
    def counts(self) -> StepCounts:
        """Counts of what ran since the start; not to be changed."""
        return self._counts

    @property
    def queue(self) -> Sequence[Ticket]:
        """The tickets that wait for a slot, the next first."""
        return self._admission.tickets

    @property
    def unread(self) -> int:
        """Commands that have not been applied."""
        return len(self._mailbox)

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
            pool=self.table.pages.statistics(self._position_bytes),
            cancels={reason.value: count for reason, count in self.receipts.counts.items()},
            device_losses=self._recovery.losses,
            last_step_seconds=counts.last_seconds,
            parks=self.preemption.preemptions,
            resumes=self.preemption.resumes,
            parked=len(self.preemption),
            states=None if self.table.states is None else self.table.states.statistics(),
            step_target_seconds=self._chunks.seconds(self.costs.target, counts.last_single),
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if slots, holds, queue and receipts contradict one another."""
        for part in (self.table, self.table.pages, self.table.states, self.cache):
            if part is not None:
                part.check_integrity()
        self.holds.check_integrity(self.table)
        assert all(self.holds.get(ticket.key) is None for ticket in self.queue), "one who waits for a slot holds one"
        self.preemption.check_integrity()
        self.receipts.check_integrity()

    def _phase_of(self, key: GenerationKey) -> State:
        record = self.holds.get(key)
        assert record is not None, f"a slot is owned by {key}, who does not hold it"
        return record.phase
