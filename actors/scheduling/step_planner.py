"""Choice of the rows of the next step: what is pending is looked at, and nothing of it changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from actors.core.life import State, planned
from actors.core.places.state_pool import SPARE, kept_drafts
from actors.core.reply import Reply
from actors.scheduling.planner import share_by_priority
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.step.step import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from actors.core.commands import Submit
    from actors.core.holds import HoldRecord
    from actors.core.slot_views import GenerationKey
    from actors.core.slots import SlotTable
    from actors.scheduling.costs import StepCostModel, StepCosts
    from actors.scheduling.planner import ChunkLimits


MAX_PASSED_OVER = 3
"""Steps of the target in a row that may go without those who are less important than a prompt that is read."""

FEW = 2
"""Rows of a prompt that go into any step, since they cost no more than a generation's: where one goes on that was
preempted, all but these is restored."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Rows that were submitted, and the segment that serves them, or the part of them that this step has room for."""

    record: HoldRecord
    work: Submit
    segment: Segment

    @property
    def most_tokens(self) -> int:
        """Return how many tokens may be drawn after it, one after the other, with the room that its slot has.

        Where layers are recurrent, no more than to the end of a block, the state behind which is kept.
        """
        most = min(self.work.most_tokens, self.record.slot.capacity - self.segment.start)
        return min(most, BLOCK_TOKENS - (self.segment.end - 1) % BLOCK_TOKENS) if self.segment.next_states else most

    def begin(self) -> None:
        """Note in the generation's life that it has these rows in a step."""
        self.record.happen(planned(self.work.phase))

    def followed_by(self, segment: Segment) -> Planned:
        """Return the next rows of the same sequence, which are in a step already."""
        left = self.work.most_tokens - (segment.start - self.segment.start)
        work = replace(self.work, token_ids=segment.token_ids, sample=segment.sample, most_tokens=left, reply=Reply())
        return Planned(self.record, work, segment)


class StepPlanner:
    """Plans step after step; remembers whose turn it was.

    Args:
        table: the manager's.
        chunks: limits of prefill chunks, and of what a drafter reads that has to catch up.
        costs: what steps take.
        has_waiting: whether a slot has blocks that are still to be copied out, so that it may not be written to.
    """

    def __init__(
        self, table: SlotTable, chunks: ChunkLimits, costs: StepCosts, has_waiting: Callable[[int], bool]
    ) -> None:
        self._table = table
        self._has_waiting = has_waiting
        self._chunks = chunks
        self._costs = costs
        self._drafter_caught_up = False  # the last step let it read in bulk
        self._holds: Sequence[HoldRecord] = ()
        self._importance: dict[GenerationKey, int] = {}  # of those who hold a slot
        self._passed_over = 0  # steps of the target in a row, without those who are behind

    def plan(self, holds: Iterable[HoldRecord], *, has_transferred: bool) -> list[Planned]:
        """Return the next step: every decode row, and as much of each prompt as its share of the budget allows.

        While a prompt is read, those who are less important generate in every fourth step only, without it: few rows
        take less time alone than they add to many.  So they do while KV is moved out of its way, and where nobody else
        has rows, the next piece follows at once.

        Drafts go first, since they are cheap and their verification then shares a step with whoever waits; but a
        drafter that reads in bulk takes turns with the target.  After a step that raised, each of those who were in it
        has a step of its own.
        """
        holds = tuple(holds)
        pending = [(record, work) for record in holds if (work := self._ready_work(record)) is not None]
        alone = [one for one in pending if one[0].runs_alone][:1]
        pending = alone or pending
        self._holds, self._importance = holds, importance(holds)
        behind = self._behind(pending, [record for record in holds if has_transferred and self._awaits_copies(record)])
        if is_passed_over := bool(behind) and self._passed_over < MAX_PASSED_OVER:
            pending = [one for one in pending if one[0].key not in behind]
        elif any(record.key in behind and work.phase is not State.DRAFT for record, work in pending):
            pending = [one for one in pending if one[1].phase is not State.PREFILL]
        drafts = [one for one in pending if one[1].phase is State.DRAFT]
        others = [one for one in pending if one[1].phase is not State.DRAFT]
        # Rows that somebody's next token waits for: in this step, or in the other model's, which comes after it.  A
        # prompt of a better priority than theirs is read as if they were not there.
        best = min((self._importance[record.key] for record, work in pending if work.is_bulk), default=0)
        urgent = sum(len(work.token_ids) for record, work in pending if not work.is_bulk and record.priority <= best)
        if drafts and not (others and self._drafter_caught_up):
            self._drafter_caught_up = any(work.is_bulk for _, work in drafts)
            return self._fill(drafts, self._costs.drafter, urgent)
        self._drafter_caught_up = False
        if not alone:  # those who are behind wait for such a step, and it is no turn of theirs
            self._passed_over = self._passed_over + 1 if is_passed_over else 0
        return self._fill(others, self._costs.target, urgent)

    def _behind(
        self, pending: Iterable[tuple[HoldRecord, Submit]], held_up: Iterable[HoldRecord]
    ) -> set[GenerationKey]:
        """Return who generates, and is less important than a prompt that is read, or held up until KV is moved.

        Rows of theirs take as long as in a step of their own, and the prompt would wait for that with every chunk, and
        with every piece of that KV.
        """
        ranked = [(self._importance[record.key], record.key, work.phase is State.PREFILL) for record, work in pending]
        read = [rank for rank, _, is_read in ranked if is_read] + [self._importance[one.key] for one in held_up]
        best = min(read, default=math.inf)
        return {key for rank, key, is_read in ranked if not is_read and rank > best}

    def _awaits_copies(self, record: HoldRecord) -> bool:
        """Return whether a hold waits for KV to move: out of its slot, out of room that it needs, or with its slot."""
        if record.pending is None or record.mark.at is not None:
            return False
        slot = record.slot
        if self._has_waiting(slot.id) or self._table.pages.must_be_owned(slot):
            return True
        return record.needed_capacity(self._table.draft_start(slot)) > slot.capacity

    def _ready_work(self, record: HoldRecord) -> Submit | None:
        """The rows that were submitted, unless the hold is cancelled, may not write to its slot yet, or is led."""
        work = record.submitted
        if work is None or record.is_led or self._has_waiting(record.slot.id):
            return None
        if self._table.pages.must_be_owned(record.slot):
            return None
        return work if self._start(record, work) + len(work.token_ids) <= record.slot.capacity else None

    def _fill(self, pending: Sequence[tuple[HoldRecord, Submit]], costs: StepCostModel, urgent: int) -> list[Planned]:
        """A step of all that must go in whole, and of as much of the rest as there is room for, or of its last rows."""
        whole = [(record, work) for record, work in pending if not work.is_bulk]
        bulk = [(record, work) for record, work in pending if work.is_bulk]
        depth = sum(self._start(record, work) for record, work in bulk) / max(len(bulk), 1)
        controls = [record.hold.ticket.control for record, _ in bulk]
        is_brief = any(control.warm or control.supersede is not None for control in controls)
        budget = self._chunks.budget(costs, urgent, depth, is_brief=is_brief)
        rings = self._table.rings
        if self._table.states is not None:
            self._table.states.begin()
        wanted = [(self._importance[record.key], len(work.token_ids)) for record, work in bulk]
        shares = share_by_priority(wanted, budget)
        shares = [rows if rows <= FEW else share for share, (_, rows) in zip(shares, wanted, strict=True)]
        if self._table.states is not None:
            shares = [self._to_block(*one, share) for one, share in zip(bulk, shares, strict=True)]
        if rings is not None:  # what a ring has room for; the rest has its turn in the next step
            shares = [min(share, rings.max_rows) for share in shares]
        return [
            *(self._planned(record, work, len(work.token_ids)) for record, work in whole),
            *(self._planned(*one, share) for one, share in zip(bulk, shares, strict=True) if share),
        ]

    def _to_block(self, record: HoldRecord, work: Submit, share: int) -> int:
        """Return so many rows of a prompt, or a few more or less, that they end with a block, where states have names.

        More are at most an eighth.  If they were never more, a prompt would take more steps than without states.
        """
        if work.phase is not State.PREFILL or share == len(work.token_ids):
            return share
        beyond = (self._start(record, work) + share) % BLOCK_TOKENS
        if (missing := BLOCK_TOKENS - beyond) <= min(beyond, share // 8):
            return min(share + missing, len(work.token_ids))
        aligned = share - beyond
        return aligned if 2 * aligned > share else share

    def _planned(self, record: HoldRecord, work: Submit, rows: int) -> Planned:
        start = self._start(record, work)
        segment = Segment(
            slot=record.slot.id,
            start=start,
            token_ids=work.token_ids[:rows],
            mark=record.mark,
            sample=work.sample if rows == len(work.token_ids) else None,
            drafts=work.drafts,
            first=self._table.draft_first(record.slot, start) if work.phase is State.DRAFT else 0,
            wanted=work.outputs.of_rows(work.token_ids, rows),
            pages=record.slot.pages,
        )
        states = self._table.states
        if states is not None and work.phase is not State.DRAFT:  # the drafter has none
            spares = SPARE if work.most_tokens > 1 else 0
            ends = self._state_ends(record, segment, states.of_round)
            segment = states.lend(segment, ends, spares, trio.current_time())
        return Planned(record, work, segment)

    def _state_ends(self, record: HoldRecord, segment: Segment, of_round: int) -> Collection[int]:
        """Return the numbers of a segment's rows behind which a state is wanted, all of its rows among them.

        That is before the first draft and behind each, or behind some of them, if `of_round` is less.  Of a prompt it
        is also where others go on: with the same prompt, whose last token alone they read; with a prompt of another
        end, behind the last whole block; and who waits for what both share, behind that.
        """
        rows, prompt = len(segment.token_ids), len(record.hold.prompt)
        if drafts := len(segment.drafts):
            return [rows - drafts + accepted for accepted in kept_drafts(drafts, of_round)]
        lengths = [length for other in self._holds if (length := other.shared_with(record)) < segment.end]
        wanted = {(prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS, prompt - 1, max(lengths, default=0)}
        return {rows, *(length - segment.start for length in wanted if segment.start < length < segment.end)}

    def _start(self, record: HoldRecord, work: Submit) -> int:
        """The position of its first row: how many rows lie before it."""
        return self._table.draft_start(record.slot) if work.phase is State.DRAFT else record.length


def importance(holds: Collection[HoldRecord]) -> dict[GenerationKey, int]:
    """Return the priority of each one's rows: the best of its own and of those who wait for what it reads."""
    best = {record.key: record.priority for record in holds}
    for record in holds:
        for leader in record.led_by:
            best[leader.key] = min(best[leader.key], record.priority)
    return best
