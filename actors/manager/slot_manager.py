"""The slot manager: the one task that owns the slots, the queue and the way to the device.

Its loop is the program:

    drain the mailbox    work submitted, leases ended: in order, nothing skipped
    admit                the queue's head gets the free slot that costs least
    move KV              a bounded piece: blocks out of slots, to be kept, and cached ones in
    plan a step          drafts before all else; decode and verify rows, then prefill chunks, within the budget
    run it               cancels take effect inside, at layer boundaries
    settle               commit what was computed, reply to each piece of work

so no step of anybody's starts before every cancel that has arrived is consumed (seed 3), and a slot is released only
here, between steps: never while a step that names it is in flight.

When the device is lost, every lease that holds a slot ends with it, and all KV in the slots is given up.  Who is queued
or comes now holds nothing, and waits for the new thread if there is to be one.  Until steps can run again no slot is
granted.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import outcome
import trio

from actors.core.costs import StepCosts
from actors.core.events import ActorPhase, DeviceIsBack, DeviceIsLost, Granted, Leader, Queued, Released
from actors.core.lease import Lease, Work
from actors.core.observer import Observers
from actors.core.receipts import CancelReason, ReceiptLog, receipt_for
from actors.core.slots import SlotState
from actors.kv.mover import KVMover
from actors.kv.prefix_cache import empty_cache
from actors.kv.restore import audit, restore
from actors.manager.step_runner import StepCounts, StepRunner
from actors.manager.supervisor import Supervisor
from runtime.errors import DeviceLost, DeviceThreadEnded, QueueFull, QueueTimeout
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from actors.core.lease import Move
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import CacheStatistics, PrefixCache
    from actors.manager.planner import ChunkLimits
    from runtime.step.executor import Executor

logger = logging.getLogger("cede.engine")


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """What the manager has done and holds, as a frozen snapshot."""

    steps: int
    rows: int
    decode_tokens: int
    prefill_tokens: int
    failed_steps: int
    queued: int
    leased: int
    slots: int
    cancels: dict[str, int]
    cache: CacheStatistics
    device_losses: int = 0


class SlotManager:
    """See the module's head.  `run` is its task; the other methods are called by actors, and never block.

    Args:
        executor: runs the steps; nobody else may use it.
        table: the slots; handed over for good.
        chunks: limits of prefill chunks.
        queue_limit: how many leases may wait.
        cache: KV outside the slots; handed over for good.
        epoch: seconds since the epoch at which the executor's clock was 0.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        chunks: ChunkLimits,
        *,
        queue_limit: int,
        cache: PrefixCache | None = None,
        epoch: float = 0.0,
    ) -> None:
        self.table = table
        self.cache = cache or empty_cache()
        self.receipts = ReceiptLog()
        self.observers = Observers()
        self.lost: str | None = None  # why no step can run, while none can
        self._may_wait = True  # for a slot: False if it is not known that steps will run again
        self._executor = executor
        self._supervisor = Supervisor(executor)
        self._mover = KVMover(executor, table, self.cache, self.observers)
        self.costs = StepCosts()
        self._steps = StepRunner(executor, table, self.cache, chunks, self.costs, self.observers)
        self._queue_limit = queue_limit
        self._epoch = epoch
        self._queue: deque[Lease] = deque()
        self._leases: dict[tuple[str, int], Lease] = {}  # granted
        self._mailbox: deque[Work | Move | Lease] = deque()
        self._mail = trio.Event()

    # --- for actors -------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The executor's clock, which marks, steps and receipts share."""
        return self._executor.clock()

    def post(self, mail: Work | Move | Lease) -> None:
        """Put work, a move, or a lease that has ended, into the mailbox."""
        self._mailbox.append(mail)
        self._mail.set()

    def enqueue(self, leases: Sequence[Lease]) -> None:
        """Give every lease a place in the queue, or none of them.

        A slot that is free is granted at once, so that its first rows are in the very next step.

        Raises:
            QueueFull: too many wait already.
            DeviceLost: no step can run, and perhaps none ever will.
        """
        if self.lost is not None and not self._may_wait:
            raise _device_lost(self.lost)
        free, wait = len(self.table.free), len(self._queue)
        if wait + len(leases) - free > self._queue_limit:
            raise QueueFull(
                f"no room for {len(leases)} more: {free} slots are free, {wait} of at most {self._queue_limit} wait",
                retry_after=1.0,
            )
        self._queue.extend(leases)
        if self.observers.queued:
            for lease in leases:
                self.observers.tell(self.observers.queued, Queued(*lease.owner, len(lease.prompt)))
        self._admit()

    @asynccontextmanager
    async def hold(
        self, lease: Lease, *, queue_timeout: float | None, cancel_reason: Callable[[], CancelReason]
    ) -> AsyncIterator[Lease]:
        """Wait for the grant of an enqueued lease and hold the slot until the scope ends, however it ends.

        Leaving waits, shielded, until the manager has taken the slot back: at most one step, of which this lease's rows
        run at most one more layer.

        Args:
            queue_timeout: seconds to wait for the grant.
            cancel_reason: asked for the receipt when the scope is left by a cancel.

        Raises:
            QueueTimeout: no grant came in time.
            DeviceLost: the device was lost, and with it what the lease held or waited for.
        """
        try:
            await self._wait_for_grant(lease, queue_timeout)
            yield lease
        except trio.Cancelled:
            self._note(lease, cancel_reason())
            raise
        except QueueTimeout:
            self._note(lease, CancelReason.QUEUE_TIMEOUT)
            raise
        except Exception:
            self._note(lease, CancelReason.FAULT)
            raise
        finally:
            await self._end(lease)

    async def restore(self, lease: Lease) -> None:
        """Bring into the slot what is known of the lease's prompt."""
        await restore(lease, self.table, self.cache)

    async def audit(self, lease: Lease) -> bool:
        """Compare what the lease computed again with what was cached; False if it differs, or did in another audit."""
        return await audit(lease, self.table, self.cache)

    def restart(self, lease: Lease) -> None:
        """Let the lease compute its whole prompt; nothing that was cached for it is ever used again."""
        self.cache.verdicts.strike(lease.restored)
        self._steps.invalidate(lease)
        lease.reuse, lease.cached, lease.audited = False, 0, None

    def draft_start(self, lease: Lease) -> int:
        """The first position that the drafter has not read and can read."""
        assert lease.slot is not None
        return self.table.draft_start(lease.slot)

    def neighbours(self, lease: Lease) -> int:
        """How many others generate tokens now, and so have rows in most steps."""
        slots = [other.slot for other in self._leases.values() if other is not lease and other.slot is not None]
        return sum(slot.state is not SlotState.PREFILL for slot in slots)

    async def _wait_for_grant(self, lease: Lease, patience: float | None) -> None:
        if lease.lost is not None:
            raise _device_lost(lease.lost)
        if lease.slot is not None:
            return
        lease.turn_to(ActorPhase.WAITING)
        with trio.move_on_after(math.inf if patience is None else patience) as waiting:
            await lease.grant.wait(lease.note_cancel)
        if waiting.cancelled_caught:
            raise QueueTimeout(f"no slot came free within {patience:g} s", retry_after=patience)

    def _note(self, lease: Lease, reason: CancelReason) -> None:
        lease.note_cancel()
        lease.reason = reason

    async def _end(self, lease: Lease) -> None:
        if lease.released.is_set():
            return  # the manager closed before us
        if lease.slot is None:  # still queued: nothing else is touched
            self._queue.remove(lease)
            self._finish(lease, slot_freed_at=None)
            return
        lease.turn_to(ActorPhase.LEAVING)
        self.post(lease)
        with trio.CancelScope(shield=True):
            await lease.released.wait()

    # --- the task ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with trio.open_nursery() as recovery:
                while True:
                    try:
                        await self._serve()
                    except DeviceLost as loss:
                        self._lose(loss)
                        recovery.start_soon(self._recover, loss)
        finally:
            self._close()

    async def _serve(self) -> NoReturn:
        """Serve until the device is lost."""
        while True:
            self._mail = trio.Event()  # before the drain: what is posted from here on ends the wait below
            self._drain()
            self._admit()
            if await self._work():
                await self._let_actors_submit()
            else:
                await self._mail.wait()

    def _drain(self) -> None:
        while self._mailbox:
            mail = self._mailbox.popleft()
            if isinstance(mail, Lease):
                self._release(mail)
            elif mail.lease.lost is not None:
                mail.reply.set(outcome.Error(_device_lost(mail.lease.lost)))
            else:
                mail.lease.pending = mail

    def _admit(self) -> None:
        if self.lost is not None:
            return
        # One that ends but has not left yet is passed over: a grant would give up resident KV, for nobody.
        for lease in [lease for lease in self._queue if lease.mark.at is None and lease.lost is None]:
            slot = self.table.grant(lease.owner, lease.prompt, reuse=lease.reuse, now=trio.current_time())
            if slot is None:
                return
            lease.slot = slot
            lease.cached = lease.length
            assert slot.before is not None
            self.cache.displace(slot.id, slot.before, lease.length)
            self.cache.count_hit("resident", lease.length)
            self._follow(lease)
            self._queue.remove(lease)
            self._leases[lease.owner] = lease
            if self.observers.granted:
                leaders = tuple(Leader(*leader.owner, shared) for leader, shared in lease.leaders)
                self.observers.tell(self.observers.granted, Granted(*lease.owner, slot.id, lease.cached, leaders))
            lease.grant.set(outcome.Value(None))

    def _follow(self, lease: Lease) -> None:
        """Note who is about to read a prefix that this lease's prompt shares: it is computed once, then copied."""
        if lease.reuse:
            shared = [(leader, leader.prompt.shared_with(lease.prompt)) for leader in self._leases.values()]
            lease.leaders = [(leader, length) for leader, length in shared if length >= lease.length + BLOCK_TOKENS]

    async def _work(self) -> bool:
        """Move KV and run a step; False if there was nothing of either.  Raises DeviceLost."""
        moved = await self._mover.move(self._leases.values())
        self._drain()
        self._admit()  # a slot that came free while KV was moved does not wait for this step
        step = self._steps.plan(self._leases.values())
        if step:
            await self._steps.run(step)
        return moved or bool(step)

    async def _let_actors_submit(self) -> None:
        """Give every actor that was replied to its turn, so that batches stay full.

        An actor submits its next work in the turn in which it wakes.  Trio may run this task before or after it within
        one pass over the runnable tasks, so two passes are enough for all, and no more is waited for than that.
        """
        for _ in range(2):
            if all(lease.pending is not None for lease in self._leases.values()):
                return
            await trio.lowlevel.checkpoint()
            self._drain()

    # --- ends -------------------------------------------------------------------------------------------------------

    def _release(self, lease: Lease) -> None:
        assert lease.slot is not None
        phase = lease.phase
        if lease.slot.suspect:
            self._steps.invalidate(lease)
        if lease.keep is not None:  # the output ended inside a run of accepted drafts
            self.table.trim(lease.slot, min(lease.keep, lease.length))
        held_until = trio.current_time() + self.cache.config.hold_seconds if lease.reason is not None else 0.0
        self.table.release(lease.slot, held_until)
        if self._mover.may_write(lease):  # else what the lease has not overwritten yet is still to be kept
            self.cache.leave(lease.slot.id, lease.slot.resident(), held_until)
        del self._leases[lease.owner]
        lease.pending = None
        self._finish(lease, slot_freed_at=self.now(), phase=phase)

    def _finish(self, lease: Lease, slot_freed_at: float | None, phase: str = "queued") -> None:
        """The last thing that happens to a lease: its receipt, if it was cancelled."""
        if lease.reason is not None:
            receipt = receipt_for(lease, lease.reason, self._epoch, slot_freed_at, phase)
            self.receipts.add(receipt)
            if self.observers.receipt:
                self.observers.tell(self.observers.receipt, receipt)
            logger.info(
                "request %s/%d cancelled: %s in %s, %d tokens kept, %d wasted",
                *(receipt.request_id, receipt.index, receipt.reason, receipt.phase),
                *(receipt.kept_tokens, receipt.wasted_tokens),
            )
        lease.released.set()
        if self.observers.released:
            slot = None if lease.slot is None else lease.slot.id
            event = Released(*lease.owner, slot, lease.reason, lease.computed, lease.committed)
            self.observers.tell(self.observers.released, event)

    def _lose(self, loss: DeviceLost) -> None:
        """Give up everything that is on the device, and tell whoever held it."""
        logger.error("the device is lost: %s", loss)
        self.lost = str(loss)
        for lease in self._leases.values():
            self._steps.invalidate(lease)
            self._tell_lost(lease)
        for slot in self.table.free:
            self.cache.waiting.forget(slot.id)
            self.table.invalidate(slot)
        if not isinstance(loss, DeviceThreadEnded):  # else who is queued need not know
            self._turn_away()
        if self.observers.device_lost:
            self.observers.tell(self.observers.device_lost, DeviceIsLost(self.lost, queue_waits=self._may_wait))

    async def _recover(self, loss: DeviceLost) -> None:
        """Let steps run again once they can."""
        try:
            await self._supervisor.recover(loss)
        except DeviceLost as final:
            logger.error("the device is lost for good: %s", final)
            self.lost = str(final)
            self._turn_away()
            if self.observers.device_lost:
                self.observers.tell(self.observers.device_lost, DeviceIsLost(self.lost, queue_waits=False))
        else:
            logger.warning("the device is back, without the KV that it held")
            self.lost, self._may_wait = None, True
            if self.observers.device_back:
                self.observers.tell(self.observers.device_back, DeviceIsBack())
        self._mail.set()

    def _turn_away(self) -> None:
        """Nobody may wait for a slot any more, until there is one again."""
        self._may_wait = False
        for lease in self._queue:
            self._tell_lost(lease)

    def _tell_lost(self, lease: Lease) -> None:
        """End a lease, whatever it waits for now or asks for later."""
        assert self.lost is not None
        lease.lost = self.lost
        lease.grant.set(outcome.Error(_device_lost(self.lost)))  # an outcome can be unwrapped only once
        if lease.pending is not None:
            lease.pending.reply.set(outcome.Error(_device_lost(self.lost)))
            lease.pending = None

    def _close(self) -> None:
        """This task ends, so nobody may be left waiting for it; usually nobody is."""
        self._drain()
        self.lost, self._may_wait = "the slot manager has ended", False
        for lease in [*self._leases.values(), *self._queue]:
            self._tell_lost(lease)
            lease.released.set()

    # --- looking in -------------------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """Pieces of mail that have not been acted on."""
        return len(self._mailbox)

    @property
    def counts(self) -> StepCounts:
        """What ran since the start; not to be changed."""
        return self._steps.counts

    def statistics(self) -> ManagerStatistics:
        """Counts since the start, and what is held now."""
        counts = self._steps.counts
        return ManagerStatistics(
            steps=counts.steps,
            rows=counts.decode_tokens + counts.prefill_tokens,
            decode_tokens=counts.decode_tokens,
            prefill_tokens=counts.prefill_tokens,
            failed_steps=counts.failed,
            queued=len(self._queue),
            leased=len(self._leases),
            slots=len(self.table),
            cache=self.cache.statistics(),
            cancels={reason.value: count for reason, count in self.receipts.counts.items()},
            device_losses=self._supervisor.losses,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if slots, leases and receipts contradict one another."""
        self.table.check_integrity()
        self.cache.check_integrity()
        held = {lease.slot.id: lease.owner for lease in self._leases.values() if lease.slot is not None}
        assert len(held) == len(self._leases), "two leases name one slot, or one names none"
        owned = {slot.id: slot.owner for slot in self.table.leased}
        assert held == owned, f"leases {held} and slots {owned} differ"
        assert all(lease.slot is None for lease in self._queue), "a queued lease holds a slot"
        for receipt in self.receipts.newest(1024):
            assert receipt.computed_tokens == receipt.kept_tokens + receipt.wasted_tokens, receipt
            assert receipt.wasted_tokens >= 0, receipt


def _device_lost(why: str) -> DeviceLost:
    """What a client is told, each with an error of its own: one that is raised in two tasks mixes up their stacks."""
    return DeviceLost(f"{why}; please send the request again")
