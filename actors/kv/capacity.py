"""Capacity of the pool of KV for the sequences that run.

Who lacks room is given free pages; and if those are not enough, residents are evicted, those that are wanted least
first.  What these hold is copied out to the tiers before, as with all that is displaced.  The one who has waited
longest is served first, and nobody behind it gets pages meanwhile: so all that comes free comes together for it.

Who is to write to a page that others read gets one of its own, and what is there is copied, between two steps.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from actors.core.commands import LoadBlocks
from actors.core.slot_views import resident_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import outcome

    from actors.core.holds import HoldRecord
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.step.transfer import CopyPage, KVData

logger = logging.getLogger("cede.kv")


class CapacityManager:
    """Part of the slot manager: called by its task, between steps, and by nobody else.

    Attributes:
        urgent: lent places whose blocks are to be copied out before others', since somebody waits for their room.

    Args:
        table, cache: the manager's.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache) -> None:
        self.urgent: Sequence[int] = ()
        self._table = table
        self._pages = table.pages
        self._cache = cache

    def make(self, holds: Iterable[HoldRecord], can_leave: Callable[[HoldRecord], bool]) -> bool:
        """Give room to those who lack it, the longest holds first, and evict residents for the first who lacks it.

        The answer is whether more is promised than there is: those who shared pages do not any longer, or what was to
        be shared has not come.  Then of those who `can_leave` their slots only the first is given any.
        """
        self._table.owner.check()
        self.urgent = ()
        wanting = [one for one in holds if one.pending is not None and one.mark.at is None]
        for record in wanting:
            if self._pages.must_be_owned(record.slot) and not self._cache.waiting.any_of(record.slot.id):
                self._pages.leave(record.slot)
            reads = record.submitted is not None and not record.has_leaders
            if reads or isinstance(record.pending, LoadBlocks):
                self._pages.expect_nothing(record.slot)
        is_over = self._pages.promised > self._pages.positions
        if is_over:
            wanting = [*wanting[:1], *(one for one in wanting[1:] if not can_leave(one))]
        lacking = [record for record in wanting if not self._has_room(record)]
        if not lacking:
            return is_over
        for place in self._table.places:
            self.fit(place)
        for record in lacking:
            if not self._make_for(record):
                self.urgent = [place.id for place in self._table.lent if not place.tokens]
                break
        return is_over

    def fit(self, slot: SlotView) -> None:
        """Take back what a slot does not need."""
        self._pages.fit(slot, self._cache.waiting.end(slot.id))

    def copies(self, holds: Iterable[HoldRecord]) -> list[CopyPage]:
        """Return what is to be copied so that those who want rows have pages of their own for them."""
        wanting = [one.slot for one in holds if one.pending is not None and one.mark.at is None]
        shared = [
            slot for slot in wanting if not self._cache.waiting.any_of(slot.id) and self._pages.must_be_owned(slot)
        ]
        return [copied for slot in shared if (copied := self._pages.own(slot)) is not None]

    def settle(self, copies: Sequence[CopyPage], results: Iterable[outcome.Outcome[KVData | None]]) -> None:
        """Note what was copied; of what was not, the rows are read or brought anew."""
        for copied, result in zip(copies, results, strict=True):
            slot = self._table.slot(copied.slot)
            try:
                result.unwrap()
            except Exception as error:
                logger.warning("a page of KV could not be copied within the pool: %r", error)
                self._pages.note_not_copied(slot, copied)
                self._table.trim(slot, len(slot.tokens) - copied.rows)
            else:
                self._pages.note_copied(slot, copied)

    # ------------------------------------------------------------------------------------------------------------------

    def _has_room(self, record: HoldRecord) -> bool:
        """Return whether a hold has all positions that it needs, and a page is free if it needs one of its own."""
        has_page = self._pages.free > 0 or not self._pages.must_be_owned(record.slot)
        return has_page and self._needed(record) <= record.slot.capacity

    def _needed(self, record: HoldRecord) -> int:
        return record.needed_capacity(self._table.draft_start(record.slot))

    def _make_for(self, record: HoldRecord) -> bool:
        """Give room to a hold, and evict residents until there is some; False while that is still to be copied out."""
        while True:
            self._pages.give(record.slot, self._needed(record), record.slot.reserved - record.slot.expected)
            if self._has_room(record):
                return True
            lent = self._table.lent
            if any(self._cache.waiting.any_of(place.id) for place in lent if not place.tokens):
                return False
            if (victim := self._least_wanted()) is None:
                return False
            self._cache.displace(victim.id, self._table.evict(victim), 0)
            self.fit(victim)

    def _least_wanted(self) -> SlotView | None:
        """Return the resident that is evicted first; None where there is none left."""
        grants, now = self._table.grants, trio.current_time()
        residents = [place for place in self._table.lent if place.tokens]
        return min(residents, key=lambda place: resident_value(place, grants, now), default=None)
