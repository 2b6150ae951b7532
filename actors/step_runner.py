"""The slot manager's steps: which rows go into the next one, and what its results change."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome

from actors.lease import Chunk, Lease, Work
from actors.planner import share_budget
from actors.slots import SlotState
from runtime.errors import DeviceLost, StepFailed
from runtime.step import Segment, SegmentResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.planner import ChunkSizer
    from actors.prefix_cache import PrefixCache
    from actors.slots import SlotTable
    from runtime.executor import Executor

logger = logging.getLogger("cede.engine")


@dataclass(frozen=True, slots=True)
class Planned:
    """A piece of work and the segment that serves it, or the part of it that this step has room for."""

    work: Work
    segment: Segment


@dataclass(slots=True)
class StepCounts:
    """What ran since the start."""

    steps: int = 0
    failed: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0


class StepRunner:
    """Part of the slot manager: called by its task and by nobody else."""

    def __init__(self, executor: Executor, table: SlotTable, cache: PrefixCache, chunks: ChunkSizer) -> None:
        self.counts = StepCounts()
        self._executor = executor
        self._table = table
        self._cache = cache
        self._chunks = chunks

    def plan(self, leases: Iterable[Lease]) -> list[Planned]:
        """The next step: every decode row, and as much of each prompt as its share of the budget allows.

        After a step that raised, each of its pieces of work is a step of its own.
        """
        pending = [work for lease in leases if (work := self._ready_work(lease)) is not None]
        pending = [work for work in pending if work.suspect][:1] or pending
        prompts = [work for work in pending if work.phase is SlotState.PREFILL]
        others = [work for work in pending if work.phase is not SlotState.PREFILL]
        budget = self._chunks.budget(sum(len(work.token_ids) for work in others))
        shares = share_budget([len(work.token_ids) for work in prompts], max(budget, len(prompts)))
        return [
            *(self._planned(work, len(work.token_ids)) for work in others),
            *(self._planned(work, share) for work, share in zip(prompts, shares, strict=True)),
        ]

    async def run(self, step: Sequence[Planned]) -> None:
        """Run a step, commit what was computed, and reply to each piece of work.

        Raises:
            DeviceLost: no step will run again.
        """
        try:
            result = await self._executor.run_step([planned.segment for planned in step])
        except DeviceLost:
            raise
        except Exception as error:
            self.counts.failed += 1
            self._suspect(step, error)
        else:
            self._observe(step, result.segments, result.finished_at - result.started_at)
            for planned, segment_result in zip(step, result.segments, strict=True):
                self._settle(planned, segment_result)

    def _ready_work(self, lease: Lease) -> Work | None:
        """The lease's work, unless it is cancelled, may not write to its slot yet, or is led by another's."""
        work = lease.pending
        assert lease.slot is not None
        if not isinstance(work, Work) or lease.mark.at is not None or self._cache.unsaved(lease.slot.id):
            return None
        if lease.is_led:
            return None
        if lease.leaders:  # they have read what is shared, or will not: there may be something to restore
            lease.leaders.clear()
            lease.pending = None
            work.reply.set(outcome.Value(Chunk(0)))
            return None
        return work

    def _planned(self, work: Work, rows: int) -> Planned:
        slot = work.lease.slot
        assert slot is not None
        self._table.enter(slot, work.phase)
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
            self._table.commit(lease.slot, rows)
            lease.slot.trial.clear()  # what the rows stand on gave finite numbers
            lease.committed += len(rows)
            work.reply.set(outcome.Value(Chunk(len(rows), result.tokens)))

    def _fail(self, planned: Planned, message: str) -> None:
        """Tell the request; whatever its slot holds is not to be used again."""
        lease = planned.work.lease
        lease.pending = None
        self.invalidate(lease)
        planned.work.reply.set(outcome.Error(StepFailed(message)))

    def invalidate(self, lease: Lease) -> None:
        """Nothing of the lease's slot is to be used again; restored blocks that no step had run over are struck."""
        assert lease.slot is not None
        self._cache.strike(lease.slot.trial)
        self._cache.forget(lease.slot.id)
        self._table.invalidate(lease.slot)
        lease.committed = 0

    def _observe(self, step: Sequence[Planned], results: Sequence[SegmentResult], seconds: float) -> None:
        prefill_rows = decode_rows = 0
        for planned in step:
            if planned.work.phase is SlotState.PREFILL:
                prefill_rows += len(planned.segment.token_ids)
            else:
                decode_rows += len(planned.segment.token_ids)
        self.counts.steps += 1
        self.counts.prefill_tokens += prefill_rows
        self.counts.decode_tokens += decode_rows
        if all(result.computed for result in results):  # a step cut short says nothing about speed
            self._chunks.observe(decode_rows, prefill_rows, seconds)
