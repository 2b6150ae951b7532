"""Whether the device may begin the next step by itself, and what becomes of one that it began in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.life import State
from runtime.step.follow_up import can_be_followed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.holds import Holds
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.manager.admission import Admission
    from actors.manager.step_planner import Planned
    from actors.manager.step_runner import StepCounts
    from runtime.step.step import Segment, StepResult


class FollowUps:
    """Part of the slot manager: called by its task and by nobody else.

    Args:
        table, cache, holds, admission: the manager's.
        counts: of the steps.
    """

    def __init__(
        self, table: SlotTable, cache: PrefixCache, holds: Holds, admission: Admission, counts: StepCounts
    ) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._admission = admission
        self._counts = counts

    def foretells(self, step: Sequence[Planned]) -> bool:
        """Whether the step after this one is the same, each row a token further, unless there is news.

        It is where all who hold a slot generate, and nobody waits for one; and where no KV waits to be moved, since
        that goes before the next step.
        """
        return (
            len(step) == len(self._holds)
            and not self._admission.tickets
            and not len(self._cache.waiting)
            and self._table.extents.moving is None
            and all(map(_goes_on, step))
        )

    def note_withdrawn(self, segments: Sequence[Segment], result: StepResult | None) -> None:
        """Note in each ledger when its rows left the device; nobody has asked for them, so no more comes of it."""
        self._counts.withdrawn += 1
        records = {record.slot.id: record for record in self._holds}
        for segment, one in zip(segments, result.segments, strict=True) if result is not None else ():
            if one.last_kernel_at is not None:
                records[segment.slot].ledger.note_step(one, rows=0)


def _goes_on(planned: Planned) -> bool:
    """Whether a generation has another row after this one, and room for it, if its token does not end it."""
    segment, record = planned.segment, planned.record
    is_last = segment.end + 1 >= record.hold.ticket.promise
    has_room = segment.end < record.slot.capacity
    return planned.work.phase is State.DECODE and can_be_followed(segment) and not is_last and has_room
