"""Transfers between two steps: blocks out of slots, to be kept, and cached KV into them."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from actors.core.events import SavedBlock, TransferBegins, TransferEnded
from actors.kv.capacity import CapacityManager
from actors.kv.transfer_planner import TransferPlanner
from runtime.step.transfer import Save, SaveState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import outcome

    from actors.core.holds import HoldRecord, Holds
    from actors.core.observer import Observers
    from actors.core.slot_views import SlotView
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.kv.waiting_blocks import SlotBlock
    from runtime.step.executor import Executor
    from runtime.step.transfer import KVData, Transfer

logger = logging.getLogger("cede.kv")


class KVTransfers:
    """Part of the slot manager: called by its task, between steps, and by nobody else.

    Args:
        executor, table, cache, observers: the manager's.
    """

    def __init__(
        self,
        executor: Executor,
        table: SlotTable,
        cache: PrefixCache,
        observers: Observers,
    ) -> None:
        self._executor = executor
        self._table = table
        self._cache = cache
        self._observers = observers
        self._planner = TransferPlanner(table, cache, observers)
        self._capacity = CapacityManager(table, cache)

    def ensure_capacity(self, holds: Holds, can_leave: Callable[[HoldRecord], bool]) -> bool:
        """Give those who wait for room in the pool what there is; True if somebody is to leave his slot for them."""
        return self._capacity.make(holds, can_leave)

    async def run(self, holds: Holds) -> bool:
        """Move a bounded piece of KV; False if there was none, and none that need not be kept any more.

        First come blocks that are to be kept and are in slots that are held, since nothing may be written there before,
        or whose room is wanted; then pages that are to be somebody's own, and what actors want moved.  Blocks of free
        slots are copied when there are no others, and one at a time while anyone waits for tokens.

        Raises:
            DeviceLost: no step can run now.
        """
        self._cache.write_behind.offer()
        self._begin_states()
        waiting = len(self._cache.waiting)
        saves = self._next_saves(holds)
        # First in order, and of the pages that the slots have now: what follows may leave them to others.
        transfers: list[Transfer] = [_save(self._table.slot(slot), block) for slot, block in saves]
        copies = self._capacity.copies(holds)
        planned = [one for record in holds if (one := self._planner.plan(record)) is not None]
        # What is copied out of a slot goes before what is moved into it, of which its ring may lose that: a source has
        # more tokens than its target.
        planned.sort(key=lambda one: one.record.length)
        if not saves and not copies and not planned:
            return len(self._cache.waiting) < waiting  # whose room may be what somebody waits for
        transfers += copies
        transfers += [transfer for one in planned for transfer in one.transfers]
        if self._observers.transfer_begins:
            saved = tuple(SavedBlock(block.key, slot, block.start) for slot, block in saves)
            self._observers.tell(self._observers.transfer_begins, TransferBegins(tuple(transfers), saved))
        results = deque(await self._executor.transfer(transfers))
        if self._observers.transfer_ended:
            self._observers.tell(self._observers.transfer_ended, TransferEnded())
        self._settle_saves(saves, results)
        self._capacity.settle(copies, [results.popleft() for _ in copies])
        for one in planned:
            self._planner.settle(one, [results.popleft() for _ in one.transfers])
        return True

    def _begin_states(self) -> None:
        """Let what was lent be free, and states go that were displaced, and that nobody wants any more."""
        if self._table.states is None:
            return
        self._table.states.begin()
        for place in self._table.places:
            if place.displaced and not self._cache.waiting.any_of(place.id):
                self._table.states.forget_displaced(place)

    def _has_state(self, slot: int, block: SlotBlock) -> bool:
        return block.buffer is not None and self._table.slot(slot).has_state(block.start, block.buffer)

    def _next_saves(self, holds: Holds) -> list[tuple[int, SlotBlock]]:
        piece = self._cache.saved_blocks
        held = [record.slot.id for record in holds]
        urgent = self._cache.next_saves([*held, *self._capacity.urgent], piece, self._has_state)
        if urgent:
            return urgent
        # What is in a retained place is copied while nobody works, since it is for nobody else; or where its room is
        # wanted.
        lent = self._table.free if holds else self._table.lent
        places = [place.id for place in lent]
        return self._cache.next_saves(places, 1 if holds else piece, self._has_state)

    def _settle_saves(
        self, saves: Sequence[tuple[int, SlotBlock]], results: deque[outcome.Outcome[KVData | None]]
    ) -> None:
        for _, block in saves:
            result = results.popleft()
            slot = self._cache.waiting.taken_from(block)
            if slot is not None:  # else what it stands on was found wrong meanwhile
                self._keep(slot, block, result)

    def _keep(self, slot: int, block: SlotBlock, saved: outcome.Outcome[KVData | None]) -> None:
        try:
            data = saved.unwrap()
        except Exception as error:
            logger.warning("a block of KV could not be copied out of its slot, and is not kept: %r", error)
        else:
            assert data is not None
            self._cache.keep(slot, block, data)


def _save(slot: SlotView, block: SlotBlock) -> Save | SaveState:
    if block.buffer is not None:
        return SaveState(slot.id, block.buffer)
    return Save(slot.id, block.start, block.end, block.whole, slot.pages)
