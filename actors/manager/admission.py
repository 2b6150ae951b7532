"""Admission: who waits for a slot, how many may, and who is next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome
import trio

from actors.core.events import Granted, Queued
from actors.core.holds import device_lost
from actors.core.life import Event, Life, State
from runtime.errors import QueueFull, RateLimited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.commands import Enqueue
    from actors.core.hold import Ticket
    from actors.core.holds import Holds
    from actors.core.observer import Observers
    from actors.core.slot_views import GenerationKey
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A ticket in the queue."""

    ticket: Ticket
    life: Life


class Admission:
    """The queue, first come, first served; the slot manager's task alone changes it.

    Args:
        table, cache, holds, observers: the manager's.
        limit: how many may wait.
    """

    def __init__(self, table: SlotTable, cache: PrefixCache, holds: Holds, observers: Observers, *, limit: int) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._observers = observers
        self._limit = limit
        self._owner = table.owner
        self._queue: dict[GenerationKey, _Waiting] = {}
        self._held_back = False  # no slot is granted: no step can run
        self._closed: str | None = None  # why nobody may wait

    @property
    def tickets(self) -> Sequence[Ticket]:
        """Those in the queue, the next first."""
        return [waiting.ticket for waiting in self._queue.values()]

    def enqueue(self, command: Enqueue) -> None:
        """Give every ticket a place in the queue, or none of them; the command is answered."""
        self._owner.check()
        command.reply.set(outcome.capture(self._enqueue, command.tickets))

    def _enqueue(self, tickets: Sequence[Ticket]) -> None:
        if self._closed is not None:
            raise device_lost(self._closed)
        free, wait = len(self._table.free), len(self._queue)
        if wait + len(tickets) - free > self._limit:
            raise QueueFull(
                f"no room for {len(tickets)} more: {free} slots are free, {wait} of at most {self._limit} wait",
                retry_after=1.0,
            )
        self._check_share(tickets[0], len(tickets) - free)
        for ticket in tickets:
            self._cache.verdicts.add_root(ticket.prompt.root)
            self._queue[ticket.key] = _Waiting(ticket, Life(self._owner))
            if self._observers.queued:
                self._observers.tell(self._observers.queued, Queued(*ticket.key, len(ticket.prompt), ticket.owner))

    def _check_share(self, first: Ticket, more: int) -> None:
        """Raise RateLimited if the owner of these tickets, of which so many would wait, may not have so many wait."""
        if first.queue_share >= 1:
            return
        places = int(first.queue_share * self._limit)
        waiting = sum(waiting.ticket.owner == first.owner for waiting in self._queue.values())
        if waiting + more > places:
            message = f"The API key {first.owner} may have {places} generations wait; {waiting} do."
            raise RateLimited(message, retry_after=1.0)

    def withdraw(self, ticket: Ticket) -> None:
        """Take a ticket out of the queue."""
        self._owner.check()
        self._queue.pop(ticket.key).life.take(Event.CANCELLED)

    def admit(self) -> None:
        """Grant the free slots to those who wait, in order; to each the one that costs it least."""
        self._owner.check()
        if self._held_back or not self._queue:
            return
        # One that ends but has not left yet is passed over: a grant would give up resident KV, for nobody.
        alive = [one for one in self._queue.values() if one.ticket.mark.at is None and one.life.state is State.QUEUED]
        for waiting in alive:
            if not self._grant(waiting):
                return

    def _grant(self, waiting: _Waiting) -> bool:
        """False if no slot is free."""
        ticket = waiting.ticket
        slot = self._table.grant(
            ticket.key, ticket.prompt, reuse=ticket.reuse, now=trio.current_time(), session=ticket.session
        )
        if slot is None:
            return False
        assert slot.before is not None
        self._cache.displace(slot.id, slot.before, len(slot.tokens))
        self._cache.count_hit("resident", len(slot.tokens))
        self._cache.leftovers.take(slot.tokens, 0, len(slot.tokens))
        waiting.life.take(Event.GRANTED)
        del self._queue[ticket.key]
        record = self._holds.add(ticket, slot, waiting.life)
        if self._observers.granted:
            event = Granted(*ticket.key, slot.id, len(slot.tokens), record.leaders)
            self._observers.tell(self._observers.granted, event)
        ticket.granted.set(outcome.Value(record.hold))
        return True

    # --- while the device is lost -------------------------------------------------------------------------------------

    def hold_back(self) -> None:
        """Grant nothing until `resume`."""
        self._owner.check()
        self._held_back = True

    def turn_away(self, why: str) -> None:
        """End everybody's wait, and let nobody wait, until `resume`."""
        self._owner.check()
        self._held_back, self._closed = True, why
        for waiting in self._queue.values():
            if waiting.life.state is State.QUEUED:
                waiting.life.take(Event.DEVICE_LOST)
                waiting.ticket.granted.set(outcome.Error(device_lost(why)))

    def resume(self) -> None:
        """Slots can be granted again."""
        self._owner.check()
        self._held_back, self._closed = False, None
