"""The slot manager: the one task that owns the slots, the queue and the way to the device.

Its loop is the program:

    drain the mailbox    work submitted, leases ended: in order, nothing skipped
    admit                the queue's head gets the free slot that costs least
    plan a step          decode rows first, then prefill chunks, within the budget
    run it               cancels take effect inside, at layer boundaries
    settle               commit what was computed, reply to each piece of work

so no step of anybody's starts before every cancel that has arrived is consumed (seed 3), and a slot is released only
here, between steps: never while a step that names it is in flight.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome
import trio

from actors.lease import Chunk, Lease, Work
from actors.planner import share_budget
from actors.receipts import CancelReason, Receipt, ReceiptLog
from actors.slots import SlotState
from runtime.errors import DeviceLost, QueueFull, QueueTimeout, StepFailed
from runtime.step import Segment, SegmentResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from actors.planner import ChunkSizer
    from actors.slots import SlotTable
    from runtime.executor import Executor

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


@dataclass(frozen=True, slots=True)
class Planned:
    """A piece of work and the segment that serves it, or the part of it that this step has room for."""

    work: Work
    segment: Segment


class SlotManager:
    """See the module's head.  `run` is its task; the other methods are called by actors, and never block.

    Args:
        executor: runs the steps; nobody else may use it.
        table: the slots; handed over for good.
        chunks: sizes prefill chunks.
        queue_limit: how many leases may wait.
        epoch: seconds since the epoch at which the executor's clock was 0.
    """

    def __init__(
        self, executor: Executor, table: SlotTable, chunks: ChunkSizer, *, queue_limit: int, epoch: float = 0.0
    ) -> None:
        self.table = table
        self.receipts = ReceiptLog()
        self.lost: str | None = None  # why no step can run, once none can
        self._executor = executor
        self._chunks = chunks
        self._queue_limit = queue_limit
        self._epoch = epoch
        self._queue: deque[Lease] = deque()
        self._leases: dict[tuple[str, int], Lease] = {}  # granted
        self._mailbox: deque[Work | Lease] = deque()
        self._mail = trio.Event()
        self._steps = self._rows = self._decode_tokens = self._prefill_tokens = self._failed_steps = 0

    # --- for actors -------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The executor's clock, which marks, steps and receipts share."""
        return self._executor.clock()

    def post(self, mail: Work | Lease) -> None:
        """Put work, or a lease that has ended, into the mailbox."""
        self._mailbox.append(mail)
        self._mail.set()

    def enqueue(self, leases: Sequence[Lease]) -> None:
        """Give every lease a place in the queue, or none of them.

        Raises:
            QueueFull: too many wait already.
            DeviceLost: no step will run again.
        """
        if self.lost is not None:
            raise DeviceLost(self.lost)
        waiting = len(self._queue) + len(leases) - len(self.table.free)
        if waiting > self._queue_limit:
            raise QueueFull(
                f"the queue is full: {len(self._queue)} waiting of at most {self._queue_limit}", retry_after=1.0
            )
        self._queue.extend(leases)
        self._mail.set()

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
            DeviceLost: no step will run again.
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

    async def _wait_for_grant(self, lease: Lease, patience: float | None) -> None:
        if self.lost is not None:
            raise DeviceLost(self.lost)
        if lease.slot is not None:
            return
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
        self.post(lease)
        with trio.CancelScope(shield=True):
            await lease.released.wait()

    # --- the task ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                self._drain()
                self._admit()
                if step := self._plan():
                    await self._run(step)
                    await self._let_actors_submit()
                else:
                    await self._wait_for_mail()
        finally:
            self._close()

    def _drain(self) -> None:
        while self._mailbox:
            mail = self._mailbox.popleft()
            if isinstance(mail, Lease):
                self._release(mail)
            elif self.lost is not None:
                mail.reply.set(outcome.Error(DeviceLost(self.lost)))
            else:
                mail.lease.pending = mail

    def _admit(self) -> None:
        # One that was cancelled but has not left yet is passed over: a grant would give up what is resident, for nobody.
        for lease in [lease for lease in self._queue if lease.mark.at is None]:
            slot = self.table.grant(lease.owner, lease.prompt, reuse=lease.reuse)
            if slot is None:
                return
            self._queue.remove(lease)
            self._leases[lease.owner] = lease
            lease.slot = slot
            lease.cached = len(slot.tokens)
            lease.grant.set(outcome.Value(None))

    def _plan(self) -> list[Planned]:
        """The next step: every decode row, and as much of each prompt as its share of the budget allows.

        After a step that raised, each of its pieces of work is a step of its own.
        """
        pending = [
            lease.pending for lease in self._leases.values() if lease.pending is not None and lease.mark.at is None
        ]
        pending = [work for work in pending if work.suspect][:1] or pending
        prompts = [work for work in pending if work.phase is SlotState.PREFILL]
        others = [work for work in pending if work.phase is not SlotState.PREFILL]
        budget = self._chunks.budget(sum(len(work.token_ids) for work in others))
        shares = share_budget([len(work.token_ids) for work in prompts], max(budget, len(prompts)))
        return [
            *(self._planned(work, len(work.token_ids)) for work in others),
            *(self._planned(work, share) for work, share in zip(prompts, shares, strict=True)),
        ]

    def _planned(self, work: Work, rows: int) -> Planned:
        slot = work.lease.slot
        assert slot is not None
        self.table.enter(slot, work.phase)
        whole = rows == len(work.token_ids)
        return Planned(
            work,
            Segment(
                slot=slot.id,
                start=len(slot.tokens),
                token_ids=work.token_ids[:rows],
                mark=work.lease.mark,
                sample=work.sample if whole else None,
            ),
        )

    async def _run(self, step: Sequence[Planned]) -> None:
        try:
            result = await self._executor.run_step([planned.segment for planned in step])
        except DeviceLost as error:
            self._lose(str(error))
        except Exception as error:
            self._failed_steps += 1
            self._suspect(step, error)
        else:
            self._observe(step, result.segments, result.finished_at - result.started_at)
            for planned, segment_result in zip(step, result.segments, strict=True):
                self._settle(planned, segment_result)

    def _suspect(self, step: Sequence[Planned], error: Exception) -> None:
        """The device raised.  Work that ran alone is the culprit; work that had company gets to run alone."""
        if len(step) == 1:
            logger.error("a step failed for request %s", step[0].work.lease.request_id, exc_info=error)
            self._fail(step[0], f"the device failed: {error}")
            return
        logger.warning("a step of %d segments failed (%r): each is run again alone", len(step), error)
        for planned in step:
            planned.work.suspect = True

    def _settle(self, planned: Planned, result: SegmentResult) -> None:
        work, rows = planned.work, planned.segment.token_ids
        lease = work.lease
        lease.pending = None
        lease.layers_after_cancel = result.layers_after_cancel
        if result.last_kernel_at is not None:
            lease.last_kernel_at = result.last_kernel_at
            lease.computed += len(rows)
        if not result.finite:
            self._fail(planned, "the model yielded numbers that are not finite")
        elif result.computed:
            assert lease.slot is not None
            self.table.commit(lease.slot, rows)
            lease.committed += len(rows)
            work.reply.set(outcome.Value(Chunk(len(rows), result.token)))

    def _fail(self, planned: Planned, message: str) -> None:
        """Tell the request; whatever its slot holds is not to be used again."""
        lease = planned.work.lease
        assert lease.slot is not None
        lease.pending = None
        self.table.invalidate(lease.slot)
        lease.committed = 0
        planned.work.reply.set(outcome.Error(StepFailed(message)))

    def _observe(self, step: Sequence[Planned], results: Sequence[SegmentResult], seconds: float) -> None:
        prefill_rows = decode_rows = 0
        for planned in step:
            if planned.work.phase is SlotState.PREFILL:
                prefill_rows += len(planned.segment.token_ids)
            else:
                decode_rows += len(planned.segment.token_ids)
        self._steps += 1
        self._rows += prefill_rows + decode_rows
        self._prefill_tokens += prefill_rows
        self._decode_tokens += decode_rows
        if all(result.computed for result in results):  # a step cut short says nothing about speed
            self._chunks.observe(decode_rows, prefill_rows, seconds)

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

    async def _wait_for_mail(self) -> None:
        if not self._mailbox:
            self._mail = trio.Event()
            await self._mail.wait()

    # --- ends -------------------------------------------------------------------------------------------------------

    def _release(self, lease: Lease) -> None:
        assert lease.slot is not None
        phase = lease.phase
        self.table.release(lease.slot)
        del self._leases[lease.owner]
        lease.pending = None
        self._finish(lease, slot_freed_at=self.now(), phase=phase)

    def _finish(self, lease: Lease, slot_freed_at: float | None, phase: str = "queued") -> None:
        """The last thing that happens to a lease: its receipt, if it was cancelled."""
        if lease.reason is not None:
            receipt = self._receipt(lease, lease.reason, slot_freed_at, phase)
            self.receipts.add(receipt)
            logger.info(
                "request %s/%d cancelled: %s in %s, %d tokens kept, %d wasted",
                *(receipt.request_id, receipt.index, receipt.reason, receipt.phase),
                *(receipt.kept_tokens, receipt.wasted_tokens),
            )
        lease.released.set()

    def _receipt(self, lease: Lease, reason: CancelReason, slot_freed_at: float | None, phase: str) -> Receipt:
        def wall(at: float | None) -> float | None:
            return None if at is None else self._epoch + at

        assert lease.mark.at is not None
        return Receipt(
            request_id=lease.request_id,
            index=lease.index,
            reason=reason,
            phase=phase,
            detected_at=self._epoch + lease.mark.at,
            last_kernel_at=wall(lease.last_kernel_at),
            slot_freed_at=wall(slot_freed_at),
            prompt_tokens=len(lease.prompt),
            cached_tokens=lease.cached,
            computed_tokens=lease.computed,
            kept_tokens=lease.committed,
            wasted_tokens=lease.computed - lease.committed,
            layers_after_cancel=lease.layers_after_cancel,
        )

    def _lose(self, why: str) -> None:
        """No step will run again: everyone who waits is told, and whoever comes is refused."""
        logger.error("no step can run any more: %s", why)
        self.lost = why
        for lease in self._leases.values():
            if lease.pending is not None:
                lease.pending.reply.set(outcome.Error(DeviceLost(why)))
                lease.pending = None
        for lease in self._queue:
            lease.grant.set(outcome.Error(DeviceLost(why)))  # an outcome can be unwrapped only once

    def _close(self) -> None:
        """This task ends, so nobody may be left waiting for it; usually nobody is."""
        self._drain()
        if self._leases or self._queue:
            self._lose("the slot manager has ended")
            for lease in [*self._leases.values(), *self._queue]:
                lease.released.set()

    # --- looking in -------------------------------------------------------------------------------------------------

    def statistics(self) -> ManagerStatistics:
        """Counts since the start, and what is held now."""
        return ManagerStatistics(
            steps=self._steps,
            rows=self._rows,
            decode_tokens=self._decode_tokens,
            prefill_tokens=self._prefill_tokens,
            failed_steps=self._failed_steps,
            queued=len(self._queue),
            leased=len(self._leases),
            slots=len(self.table),
            cancels={reason.value: count for reason, count in self.receipts.counts.items()},
        )

    def check_integrity(self) -> None:
        """Raise AssertionError if slots, leases and receipts contradict one another."""
        self.table.check_integrity()
        held = {lease.slot.id: lease.owner for lease in self._leases.values() if lease.slot is not None}
        assert len(held) == len(self._leases), "two leases name one slot, or one names none"
        owned = {slot.id: slot.owner for slot in self.table.leased}
        assert held == owned, f"leases {held} and slots {owned} differ"
        assert all(lease.slot is None for lease in self._queue), "a queued lease holds a slot"
        for receipt in self.receipts.newest(1024):
            assert receipt.computed_tokens == receipt.kept_tokens + receipt.wasted_tokens, receipt
            assert receipt.wasted_tokens >= 0, receipt
