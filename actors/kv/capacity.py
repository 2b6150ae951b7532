"""Capacity of the arena of KV for the sequences that run.

Who lacks room gets it in place, if what follows its extent is free; else by a move of its own or of others, in pieces
between two steps; and if all that is free is not enough, residents are evicted, those that are wanted least first.
What these hold is copied out to the tiers before, as with all that is displaced.

The one who has waited longest is served first, and nobody behind it takes a new place meanwhile: so all that comes free
comes together for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from actors.core.slot_views import resident_value
from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import outcome

    from actors.core.holds import HoldRecord
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from runtime.step.transfer import KVData, Relocate

logger = logging.getLogger("cede.kv")

HEADROOM = 256  # positions that are made room for at least, where others have to be moved for it


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
        self._extents = table.extents
        self._cache = cache

    def make(self, holds: Iterable[HoldRecord]) -> None:
        """Give room to those who lack it, the longest holds first, and begin what has to be done for the first."""
        self._table.owner.check()
        self.urgent = ()
        lacking = [record for record in holds if self._lacks(record)]
        if not lacking:
            return
        for place in self._table.places:
            self.fit(place)
        first: HoldRecord | None = None
        for record in lacking:
            if not self._give(record, anywhere=first is None):
                first = first or record
        if first is not None and self._extents.moving is None:
            self._make_for(first)

    def fit(self, slot: SlotView) -> None:
        """Take back what a slot does not need."""
        self._extents.fit(slot, self._kept(slot.id))

    def pieces(self) -> list[Relocate]:
        """Return what is to be copied next of the sequence that is being moved."""
        return self._extents.pieces(self._cache.piece_blocks * BLOCK_TOKENS)

    def settle(self, pieces: Sequence[Relocate], results: Iterable[outcome.Outcome[KVData | None]]) -> SlotView | None:
        """Note what was copied; returns the slot whose KV could not be moved, and is lost."""
        for piece, result in zip(pieces, results, strict=True):
            try:
                result.unwrap()
            except Exception as error:
                logger.warning("a piece of KV could not be moved within the arena: %r", error)
                return self._extents.note_failed()
            self._extents.note_relocated(piece)
        return None

    # ------------------------------------------------------------------------------------------------------------------

    def _lacks(self, record: HoldRecord) -> bool:
        if record.pending is None or record.mark.at is not None or self._extents.is_relocating(record.slot):
            return False
        return self._needed(record) > record.slot.capacity

    def _needed(self, record: HoldRecord) -> int:
        return record.needed_capacity(self._table.draft_start(record.slot))

    def _give(self, record: HoldRecord, *, anywhere: bool = True) -> bool:
        """Give room that is there, in place or, where nothing has to be copied for it, anywhere; False if none is."""
        slot, needed = record.slot, self._needed(record)
        wanted = max(needed, slot.reserved)
        if slot.capacity and self._extents.give(slot, needed, wanted):
            return True
        if not anywhere:
            return False
        if slot.capacity:
            if slot.used or self._kept(slot.id):
                return False
            self._extents.drop(slot)
        return self._extents.give(slot, needed, wanted)

    def _make_for(self, record: HoldRecord) -> None:
        """Begin a move that leads to room for this hold, or evict residents until there is some.

        A sequence without any KV is moved at once, and more may follow.
        """
        needed = self._needed(record)
        wanted = max(needed, record.slot.reserved)
        least = min(wanted, needed + max(HEADROOM, needed // 4))
        while True:
            relocation = self._extents.plan_relocation(record.slot, least, wanted, self._kept)
            if relocation is not None:
                self._extents.begin_relocation(relocation, self._kept(relocation.owner), wanted_by=record.slot)
                if self._extents.moving is not None:
                    break
            else:
                victim = self._least_wanted()
                if victim is None:
                    break  # blocks are on their way out, and then there will be room
                self._evict(victim)
                if self._cache.waiting.any_of(victim.id):
                    break
                self.fit(victim)
            if self._give(record):
                return
        self.urgent = [place.id for place in self._table.lent if not place.tokens]

    def _least_wanted(self) -> SlotView | None:
        """Return the resident that is evicted first; None where there is none left."""
        residents = [place for place in self._table.lent if place.tokens and not self._extents.is_relocating(place)]
        grants, now = self._table.grants, trio.current_time()
        return min(residents, key=lambda place: resident_value(place, grants, now), default=None)

    def _evict(self, slot: SlotView) -> None:
        resident = self._table.evict(slot)
        self._cache.displace(slot.id, resident, 0)

    def _kept(self, slot: int) -> int:
        """Return up to which position a slot has blocks that are still to be copied out."""
        return self._cache.waiting.end(slot)
