"""The slot manager's steps: which rows go into the next one, and what its results change."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import outcome

from actors.core.events import (
    Committed,
    HandedBack,
    Invalidated,
    LayerDone,
    StepBegins,
    StepEnded,
    StepPart,
    StepRaised,
)
from actors.core.lease import Chunk, Lease, Work
from actors.core.slots import SlotState
from actors.manager.planner import share_budget
from runtime.errors import DeviceLost, StepFailed
from runtime.step.step import Segment, SegmentResult, StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.core.costs import StepCostModel, StepCosts
    from actors.core.observer import Observers
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.planner import ChunkLimits
    from runtime.step.executor import Executor

logger = logging.getLogger("cede.engine")


@dataclass(frozen=True, slots=True)
class Planned:
    """A piece of work and the segment that serves it, or the part of it that this step has room for."""

    work: Work
    segment: Segment


@dataclass(slots=True)
class StepCounts:
    """What ran since the start; all but `draft_steps` and `draft_rows` on the target."""

    steps: int = 0
    failed: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    draft_steps: int = 0
    draft_rows: int = 0
    verify_steps: int = 0  # pieces of work, of which one step may hold several
    drafted: int = 0
    accepted: int = 0


class StepRunner:
    """Part of the slot manager: called by its task and by nobody else.

    Args:
        executor, table, cache: the manager's.
        chunks: limits of prefill chunks, and of what a drafter reads that has to catch up.
        costs: learns what steps take.
        observers: are told.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        cache: PrefixCache,
        chunks: ChunkLimits,
        costs: StepCosts,
        observers: Observers,
    ) -> None:
        self.counts = StepCounts()
        self._costs = costs
        self._caught_up = False  # the last step let a drafter read in bulk
        self._executor = executor
        self._table = table
        self._cache = cache
        self._chunks = chunks
        self._observers = observers
        self._begun = {False: 0, True: 0}  # steps, by `drafting`

    def plan(self, leases: Iterable[Lease]) -> list[Planned]:
        """The next step: every decode row, and as much of each prompt as its share of the budget allows.

        Drafts go first, since they are cheap and their verification then shares a step with whoever waits; but a
        drafter that reads in bulk takes turns with the target.  After a step that raised, each of its pieces of work is
        a step of its own.
        """
        pending = [work for lease in leases if (work := self._ready_work(lease)) is not None]
        pending = [work for work in pending if work.suspect][:1] or pending
        drafts = [work for work in pending if work.phase is SlotState.DRAFT]
        others = [work for work in pending if work.phase is not SlotState.DRAFT]
        # Rows that somebody's next token waits for: in this step, or in the other model's, which comes after it.
        urgent = sum(len(work.token_ids) for work in pending if not work.is_bulk)
        if drafts and not (others and self._caught_up):
            return self._fill(drafts, self._costs.drafter, urgent)
        return self._fill(others, self._costs.target, urgent)

    def _fill(self, pending: Sequence[Work], costs: StepCostModel, urgent: int) -> list[Planned]:
        """A step of all that must go in whole, and of as much of the rest as there is room for."""
        whole = [work for work in pending if not work.is_bulk]
        bulk = [work for work in pending if work.is_bulk]
        depth = sum(self._start(work) for work in bulk) / max(len(bulk), 1)
        budget = self._chunks.budget(costs, urgent, depth)
        shares = share_budget([len(work.token_ids) for work in bulk], budget)
        return [
            *(self._planned(work, len(work.token_ids)) for work in whole),
            *(self._planned(work, share) for work, share in zip(bulk, shares, strict=True) if share),
        ]

    async def run(self, step: Sequence[Planned]) -> None:
        """Run a step, commit what was computed, and reply to each piece of work.

        Raises:
            DeviceLost: no step can run now.
        """
        drafting = step[0].work.phase is SlotState.DRAFT
        begun = self._executor.clock()
        segments = [planned.segment for planned in step]
        number = self._tell_begin(step, drafting)
        try:
            layer_done = self._layer_hook(number, drafting) if self._observers.layer_done else None
            result = await self._executor.run_step(segments, drafting=drafting, layer_done=layer_done)
        except Exception as error:
            if self._observers.step_raised:
                self._observers.tell(self._observers.step_raised, StepRaised(number, drafting, error))
            if isinstance(error, DeviceLost):
                raise
            self.counts.failed += 1
            self._suspect(step, error)
        else:
            if self._observers.step_ended:
                self._observers.tell(self._observers.step_ended, StepEnded(number, drafting, result))
            self._observe(step, result, self._executor.clock() - begun)
            for planned, segment_result in zip(step, result.segments, strict=True):
                self._settle(planned, segment_result)

    def _tell_begin(self, step: Sequence[Planned], drafting: bool) -> int:
        """Say what the step runs; returns its number."""
        self._begun[drafting] += 1
        if self._observers.step_begins:
            event = StepBegins(self._begun[drafting], drafting, tuple(_part(planned) for planned in step))
            self._observers.tell(self._observers.step_begins, event)
        return self._begun[drafting]

    def _layer_hook(self, number: int, drafting: bool) -> Callable[[], None]:
        """What the executor calls at the end of each layer of that step."""
        layers = count()

        def layer_done() -> None:
            self._observers.tell(self._observers.layer_done, LayerDone(number, drafting, next(layers)))

        return layer_done

    def _ready_work(self, lease: Lease) -> Work | None:
        """The lease's work, unless it is cancelled, may not write to its slot yet, or is led by another's."""
        work = lease.pending
        assert lease.slot is not None
        if not isinstance(work, Work) or lease.mark.at is not None or self._cache.waiting.any_of(lease.slot.id):
            return None
        if lease.is_led:
            return None
        if lease.leaders:  # they have read what is shared, or will not: there may be something to restore
            lease.leaders.clear()
            lease.pending = None
            if self._observers.handed_back:
                self._observers.tell(self._observers.handed_back, HandedBack(*lease.owner))
            work.reply.set(outcome.Value(Chunk(0)))
            return None
        return work

    def _planned(self, work: Work, rows: int) -> Planned:
        slot = work.lease.slot
        assert slot is not None
        self._table.enter(slot, work.phase)
        drafting = work.phase is SlotState.DRAFT
        start = self._start(work)
        whole = rows == len(work.token_ids)
        return Planned(
            work,
            Segment(
                slot=slot.id,
                start=start,
                token_ids=work.token_ids[:rows],
                mark=work.lease.mark,
                sample=work.sample if whole else None,
                drafts=work.drafts,
                first=self._table.draft_first(slot, start) if drafting else 0,
            ),
        )

    def _start(self, work: Work) -> int:
        """The position of its first row: how many rows lie before it."""
        slot = work.lease.slot
        assert slot is not None
        return self._table.draft_start(slot) if work.phase is SlotState.DRAFT else len(slot.tokens)

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
        lease = planned.work.lease
        lease.pending = None
        lease.layers_after_cancel = result.layers_after_cancel
        if result.last_kernel_at is not None:
            lease.last_kernel_at = result.last_kernel_at
            if planned.work.phase is not SlotState.DRAFT:
                lease.computed += len(planned.segment.token_ids)
        if not result.finite:
            self._fail(planned, "the model yielded numbers that are not finite")
        elif result.computed:
            rows = self._commit(planned, result)
            planned.work.reply.set(outcome.Value(Chunk(rows, result.tokens)))

    def _commit(self, planned: Planned, result: SegmentResult) -> int:
        """Record whose KV is valid now; returns of how many rows it is: all but those of rejected drafts."""
        lease, segment = planned.work.lease, planned.segment
        slot = lease.slot
        assert slot is not None
        if planned.work.phase is SlotState.DRAFT:
            self._table.commit_draft(slot, segment.start, len(segment.token_ids))
            self._tell_committed(planned, len(segment.token_ids), 0)
            return len(segment.token_ids)
        drafted = len(segment.drafts)
        accepted = len(result.tokens) - 1 if drafted else 0
        rows = segment.token_ids[: len(segment.token_ids) - (drafted - accepted)]
        self._table.commit(slot, rows)
        self._table.end_round(slot, segment.start)
        slot.trial.clear()  # what the rows stand on gave finite numbers
        lease.committed += len(rows)
        lease.drafted += drafted
        lease.accepted += accepted
        self.counts.verify_steps += bool(drafted)
        self.counts.drafted += drafted
        self.counts.accepted += accepted
        self._tell_committed(planned, len(rows), accepted)
        return len(rows)

    def _tell_committed(self, planned: Planned, rows: int, accepted: int) -> None:
        if self._observers.committed:
            segment, drafting = planned.segment, planned.work.phase is SlotState.DRAFT
            drafted = len(segment.drafts)
            event = Committed(*planned.work.lease.owner, segment.slot, drafting, segment.start, rows, drafted, accepted)
            self._observers.tell(self._observers.committed, event)

    def _fail(self, planned: Planned, message: str) -> None:
        """Tell the request; whatever its slot holds is not to be used again, of the drafter's KV if a draft failed."""
        lease = planned.work.lease
        lease.pending = None
        if planned.work.phase is SlotState.DRAFT:
            assert lease.slot is not None
            self._table.forget_draft(lease.slot)
        else:
            self.invalidate(lease)
        planned.work.reply.set(outcome.Error(StepFailed(message)))

    def invalidate(self, lease: Lease) -> None:
        """Nothing of the lease's slot is to be used again; restored blocks that no step had run over are struck."""
        assert lease.slot is not None
        self._cache.verdicts.strike(lease.slot.trial)
        self._cache.waiting.forget(lease.slot.id)
        self._table.invalidate(lease.slot)
        lease.committed = 0
        if self._observers.invalidated:
            self._observers.tell(self._observers.invalidated, Invalidated(*lease.owner, lease.slot.id))

    def _observe(self, step: Sequence[Planned], result: StepResult, elapsed: float) -> None:
        """Count, and learn what steps cost, the way to the device and back included."""
        chunks = [planned.segment for planned in step if planned.work.is_bulk]
        bulk = sum(len(chunk.token_ids) for chunk in chunks)
        single = sum(len(planned.segment.token_ids) for planned in step) - bulk
        drafting = step[0].work.phase is SlotState.DRAFT
        self._caught_up = drafting and bulk > 0
        if drafting:
            self.counts.draft_steps += 1
            self.counts.draft_rows += single + bulk
        else:
            self.counts.steps += 1
            self.counts.prefill_tokens += bulk
            self.counts.decode_tokens += single
        if not all(segment.computed for segment in result.segments):
            return  # a step cut short says nothing about speed
        depth = sum(chunk.start * len(chunk.token_ids) for chunk in chunks) / max(bulk, 1)
        (self._costs.drafter if drafting else self._costs.target).observe(single, bulk, depth, elapsed)


def _part(planned: Planned) -> StepPart:
    segment = planned.segment
    return StepPart(
        *planned.work.lease.owner,
        planned.work.phase,
        segment.slot,
        segment.start,
        tuple(segment.token_ids),
        len(segment.drafts),
    )
