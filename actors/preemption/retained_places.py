"""Retained places: where the KV of those who are preempted stays without being copied, while there is room."""

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


class RetainedPlaces:
    """Part of `Preemption`: the slot manager's task alone changes this.

    What is in a retained place is lent like a resident, and the last that is evicted.  Blocks of it that are to be
    kept wait there as they would in a slot.

    Args:
        table, waiting, observers: the manager's.
    """

    def __init__(self, table: SlotTable, waiting: WaitingBlocks, observers: Observers) -> None:
        self._table = table
        self._waiting = waiting
        self._observers = observers
        self._keys: dict[int, GenerationKey] = {}  # by retained place, whose KV was put there last

    def of(self, key: GenerationKey) -> SlotView | None:
        """Return where one's KV is; None where it is in no retained place, or others have had the room since."""
        retained_places = self._table.retained_places
        return next(
            (retained for retained in retained_places if self._keys.get(retained.id) == key and retained.tokens), None
        )

    def put(self, key: GenerationKey, slot: SlotView) -> None:
        """Put what one leaves in its slot in a retained place, if one has nothing of anybody who is preempted.

        What was in that retained place comes to the slot: a resident, which the next grant may displace.
        """
        self._table.owner.check()
        free = [retained for retained in self._table.retained_places if self._is_free(retained)]
        retained = min(free, key=lambda one: (bool(one.tokens), one.last_used), default=None)
        if retained is not None:
            self._exchange(slot, retained)
            self._table.keep_until(retained, math.inf)
            self._keys[retained.id] = key

    def take(self, key: GenerationKey, prompt: TokenChain, *, reuse: bool, session: Session | None) -> None:
        """Let a free slot have what is in a retained place, if that serves best whoever is to be granted a slot.

        That is one's own KV, if one was preempted; or what others left, where that costs less than what is in any slot.
        What was in that slot, whose resident is wanted least, is a resident in the retained place then.
        """
        self._table.owner.check()
        table, now = self._table, trio.current_time()
        slots = table.free
        if not slots:
            return
        free = [retained for retained in table.retained_places if retained.tokens and self._is_free(retained)]
        places = [*slots, *free]
        place = self.of(key) or table.cheapest(places, prompt, reuse=reuse, now=now, session=session)[0]
        if place in table.retained_places:
            slot = min(slots, key=lambda one: resident_value(one, table.grants, now))
            self._exchange(slot, place)
            table.keep_until(slot, 0.0)
            self._keys.pop(place.id, None)

    def leave(self, key: GenerationKey) -> None:
        """Let what is still there of one be like any resident from now on: it needs it no more."""
        self._table.owner.check()
        retained = self.of(key)
        if retained is not None:
            self._table.keep_until(retained, 0.0)
            del self._keys[retained.id]

    def _is_free(self, retained: SlotView) -> bool:
        return not (retained.tokens and retained.id in self._keys)

    def _exchange(self, slot: SlotView, retained: SlotView) -> None:
        self._table.exchange(slot, retained)
        self._waiting.exchange(slot.id, retained.id)
        if self._observers.exchanged:
            self._observers.tell(self._observers.exchanged, Exchanged(slot.id, retained.id))

    def check_integrity(self, preempted: Collection[GenerationKey]) -> None:
        """Raise AssertionError if a retained place is kept for anybody else than those who are preempted."""
        for retained in self._table.retained_places:
            key = self._keys.get(retained.id)
            assert key is None or key in preempted or not retained.tokens, (
                f"{key} is not preempted, and has a retained place"
            )
