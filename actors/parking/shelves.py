"""Shelves: where the KV of those who are parked stays without being copied, while there is room."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from actors.core.events import Exchanged
from actors.core.slot_views import resident_value

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.core.observer import Observers
    from actors.core.slot_views import GenerationKey, Session, SlotView
    from actors.core.slots import SlotTable
    from actors.kv.waiting_blocks import WaitingBlocks
    from runtime.kv.token_chain import TokenChain


class Shelves:
    """Part of `Parking`: the slot manager's task alone changes this.

    What is on a shelf is lent like a resident, and the last that is given up.  Blocks of it that are to be kept wait
    there as they would in a slot.

    Args:
        table, waiting, observers: the manager's.
    """

    def __init__(self, table: SlotTable, waiting: WaitingBlocks, observers: Observers) -> None:
        self._table = table
        self._waiting = waiting
        self._observers = observers
        self._keys: dict[int, GenerationKey] = {}  # by shelf, whose KV was put there last

    def of(self, key: GenerationKey) -> SlotView | None:
        """Return where one's KV is; None where it is on no shelf, or others have had the room since."""
        shelves = self._table.shelves
        return next((shelf for shelf in shelves if self._keys.get(shelf.id) == key and shelf.tokens), None)

    def put(self, key: GenerationKey, slot: SlotView) -> None:
        """Put what one leaves in its slot on a shelf, if there is one that has nothing of anybody who is parked.

        What was on that shelf comes to the slot: a resident, which the next grant may displace.
        """
        self._table.owner.check()
        free = [shelf for shelf in self._table.shelves if self._is_free(shelf)]
        shelf = min(free, key=lambda one: (bool(one.tokens), one.last_used), default=None)
        if shelf is not None:
            self._exchange(slot, shelf)
            self._table.hold(shelf, math.inf)
            self._keys[shelf.id] = key

    def take(self, key: GenerationKey, prompt: TokenChain, *, reuse: bool, session: Session | None) -> None:
        """Let a free slot have what is on a shelf and serves best whoever is to be granted a slot, if anything does.

        That is one's own KV, if one was parked; or what others left, where that costs less than what is in any slot.
        What was in that slot, whose resident is wanted least, is a resident on the shelf then.
        """
        self._table.owner.check()
        table, now = self._table, trio.current_time()
        slots = [slot for slot in table.free if not table.extents.is_moving(slot)]
        if not slots:
            return
        shelves = [shelf for shelf in table.shelves if shelf.tokens and self._is_free(shelf)]
        places = [*slots, *shelves]
        place = self.of(key) or table.cheapest(places, prompt, reuse=reuse, now=now, session=session)[0]
        if place in table.shelves:
            slot = min(slots, key=lambda one: resident_value(one, table.grants, now))
            self._exchange(slot, place)
            table.hold(slot, 0.0)
            self._keys.pop(place.id, None)

    def leave(self, key: GenerationKey) -> None:
        """Let what is still there of one be like any resident from now on: it needs it no more."""
        self._table.owner.check()
        shelf = self.of(key)
        if shelf is not None:
            self._table.hold(shelf, 0.0)
            del self._keys[shelf.id]

    def _is_free(self, shelf: SlotView) -> bool:
        return not (shelf.tokens and shelf.id in self._keys) and not self._table.extents.is_moving(shelf)

    def _exchange(self, slot: SlotView, shelf: SlotView) -> None:
        self._table.exchange(slot, shelf)
        self._waiting.exchange(slot.id, shelf.id)
        if self._observers.exchanged:
            self._observers.tell(self._observers.exchanged, Exchanged(slot.id, shelf.id))

    def check_integrity(self, parked: Collection[GenerationKey]) -> None:
        """Raise AssertionError if a shelf is kept for anybody else than those who are parked."""
        for shelf in self._table.shelves:
            key = self._keys.get(shelf.id)
            assert key is None or key in parked or not shelf.tokens, f"{key} is not parked, and has a shelf"
