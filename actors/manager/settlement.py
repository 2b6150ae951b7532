"""Settlement of a step's results: tokens are committed, figures noted, and actors answered."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import outcome

from actors.core.commands import Chunk
from actors.core.events import Committed, HandedBack, Invalidated, Submitted
from actors.core.life import State
from actors.scheduling.step_planner import Planned
from runtime.common.units import counted
from runtime.errors import StepFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.holds import HoldRecord
    from actors.core.observer import Observers
    from actors.core.reply import Reply
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.step_runner import StepCounts
    from runtime.step.step import SegmentResult, StepResult

logger = logging.getLogger("cede.engine")


class Settlement:
    """Part of the slot manager: called by its task and by nobody else.

    Args:
        table, cache, observers: the manager's.
        counts: of the steps.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache, observers: Observers, counts: StepCounts) -> None:
        self._table = table
        self._cache = cache
        self._observers = observers
        self._counts = counts

    def settle(self, step: Sequence[Planned], result: outcome.Outcome[StepResult]) -> list[Planned]:
        """Commit what was computed, and answer each of those who were in the step.

        Returns:
            What runs already: the next rows of all of them, or none.
        """
        if isinstance(result, outcome.Error):
            self._settle_failure(step, result.error)
            return []
        value = result.unwrap()
        if value.following is None:
            for planned, segment_result in zip(step, value.segments, strict=True):
                self._settle_segment(planned, segment_result)
            return []
        following = list(map(Planned.followed_by, step, value.following.segments))
        for planned, segment_result, next_rows in zip(step, value.segments, following, strict=True):
            self._settle_segment(planned, segment_result, next_rows.work.reply)
            self._submit(next_rows)
        return following

    def hand_back(self, holds: Iterable[HoldRecord]) -> None:
        """Hand back the rows of those whose leaders have read what is shared, or will not: it may be restored.

        So are those of a prompt that do not follow what is in the slot any more, since a page of that was not copied.
        """
        for record in holds:
            work = record.submitted
            if work is None or record.is_led or self._cache.waiting.any_of(record.slot.id):
                continue
            is_cut = work.phase is State.PREFILL and record.length + len(work.token_ids) < len(record.hold.prompt)
            if not (record.has_leaders or is_cut):
                continue
            record.follow_nobody()
            record.clear_pending()
            if self._observers.handed_back:
                self._observers.tell(self._observers.handed_back, HandedBack(*record.key))
            work.reply.set(outcome.Value(Chunk(0)))

    def invalidate(self, record: HoldRecord) -> None:
        """Let nothing of a hold's slot be used again; restored blocks that no step had run over are invalidated."""
        self._cache.invalidation.invalidate(record.slot.trial)
        self._cache.waiting.forget(record.slot.id)
        self._table.invalidate(record.slot)
        record.ledger.note_invalidated()
        if self._observers.invalidated:
            self._observers.tell(self._observers.invalidated, Invalidated(*record.key, record.slot.id))

    def _settle_failure(self, step: Sequence[Planned], error: BaseException) -> None:
        """The device raised.  Who ran alone is the culprit; those who had company get to run alone."""
        if len(step) == 1:
            request_id = step[0].record.hold.request_id
            logger.error("a step failed for request %s", request_id, exc_info=error, extra={"request_id": request_id})
            self._fail(step[0], f"the device failed: {error}")
            return
        logger.warning("a step of %s failed (%r): each is run again alone", counted(len(step), "segment"), error)
        for planned in step:
            planned.record.run_alone()

    def _submit(self, planned: Planned) -> None:
        """Ask for rows that run already, in the place of their actor."""
        planned.record.ask(planned.work)
        if self._observers.submitted:
            event = Submitted(*planned.record.key, planned.work.phase, len(planned.work.token_ids), is_bulk=False)
            self._observers.tell(self._observers.submitted, event)

    def _settle_segment(self, planned: Planned, result: SegmentResult, following: Reply[Chunk] | None = None) -> None:
        record = planned.record
        record.clear_pending()
        record.ledger.note_step(result, rows=0 if planned.work.phase is State.DRAFT else result.rows)
        if not result.finite:
            self._fail(planned, "the model yielded numbers that are not finite")
        elif result.computed:
            committed = self._commit(planned, result, goes_on=following is not None)
            planned.work.reply.set(outcome.Value(Chunk(committed, result.tokens, result.given, following)))

    def _commit(self, planned: Planned, result: SegmentResult, *, goes_on: bool) -> int:
        """Record whose KV is valid now; returns of how many rows it is.

        It is of all but rejected drafts, and of the tokens that were drawn and read.  Where layers are recurrent, it is
        of those up to the last that has left a state: the next ones go on from there.
        """
        slot, segment = planned.record.slot, planned.segment
        if planned.work.phase is State.DRAFT:
            self._table.commit_draft(slot, segment.start, len(segment.token_ids))
            self._tell_committed(planned, len(segment.token_ids), 0)
            return len(segment.token_ids)
        drafted = len(segment.drafts)
        accepted = len(result.tokens) - 1 if drafted else 0
        rows = [
            *segment.token_ids[: len(segment.token_ids) - drafted],
            *(token.token_id for token in result.tokens[:-1]),
        ]
        states = self._table.states
        left = {} if states is None else segment.states_after(len(rows), result.rows, goes_on=goes_on)
        rows = rows[: max(left) - segment.start] if left else rows
        self._table.commit(slot, rows)
        if states is not None:
            states.commit(slot, left, passing=planned.work.phase is not State.PREFILL)
        self._table.end_round(slot, segment.start)
        planned.record.ledger.note_committed(segment.start, len(rows), drafted, accepted)
        self._cache.salvaged.forget(slot.tokens, segment.start, segment.start + len(rows))
        self._counts.verify_steps += bool(drafted)
        self._counts.drafted += drafted
        self._counts.accepted += accepted
        self._tell_committed(planned, len(rows), accepted)
        return len(rows)

    def _tell_committed(self, planned: Planned, rows: int, accepted: int) -> None:
        observers, segment = self._observers, planned.segment
        drafted = len(segment.drafts)
        if observers.committed or (drafted and observers.verified):
            drafting = planned.work.phase is State.DRAFT
            event = Committed(*planned.record.key, segment.slot, drafting, segment.start, rows, drafted, accepted)
            if drafted:
                observers.tell(observers.verified, event)
            observers.tell(observers.committed, event)

    def _fail(self, planned: Planned, message: str) -> None:
        """Tell the actor; whatever its slot holds is not to be used again, of the drafter's KV if a draft failed."""
        planned.record.clear_pending()
        if planned.work.phase is State.DRAFT:
            self._table.forget_draft(planned.record.slot)
        else:
            self.invalidate(planned.record)
        planned.work.reply.set(outcome.Error(StepFailed(message)))
