"""Admission: who waits for a slot, how many may, and whether they can be served in time.

Who of them is next, `actors.queue` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import outcome
import trio

from actors.core.events import Granted, Queued
from actors.core.hold import LEAST_IMPORTANT
from actors.core.holds import device_lost
from actors.core.life import Event, Life, State
from actors.manager.punctuality import Punctuality
from actors.queue.order import Claim, Order
from actors.queue.shares import OutputLengths
from runtime.errors import QueueFull, RateLimited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.account import Account
    from actors.core.commands import Enqueue
    from actors.core.costs import StepCosts
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
    """The queue; the slot manager's task alone changes it.

    Whoever takes over another's place is served as if it had come when that one came, or next, if that one had a slot;
    and nobody before those have left whom it waits for.

    Args:
        table, cache, holds, observers: the manager's.
        costs: of steps.
        limit: how many may wait.
        ageing: seconds that count as one level of priority for a class that is passed over.
    """

    def __init__(
        self,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        observers: Observers,
        costs: StepCosts,
        *,
        limit: int,
        ageing: float,
    ) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._observers = observers
        self._limit = limit
        self._owner = table.owner
        self._queue: dict[GenerationKey, _Waiting] = {}
        self._order: Order[GenerationKey] = Order(ageing)
        self._lengths = OutputLengths()
        self._places = 0  # given so far
        self._punctual = Punctuality(table, cache, holds, costs.target)
        self._held_back = False  # no slot is granted: no step can run
        self._closed: str | None = None  # why nobody may wait

    @property
    def tickets(self) -> Sequence[Ticket]:
        """Those in the queue: the better class first, and in a class those who came first."""
        return [self._queue[key].ticket for key in self._order]

    def enqueue(self, command: Enqueue) -> None:
        """Give every ticket a place in the queue, or none of them; the command is answered."""
        self._owner.check()
        command.reply.set(outcome.capture(self._enqueue, command.tickets))

    def _enqueue(self, tickets: Sequence[Ticket]) -> None:
        if self._closed is not None:
            raise device_lost(self._closed)
        ahead = [one.ticket for one in self._queue.values() if tickets[0].is_warm or not one.ticket.is_warm]
        promises = [one.promise for one in (*(one for one in ahead if one.is_due), *tickets)]
        free, wait = self._table.extents.grantable(promises, self._slots_left_to(tickets[0])), len(ahead)
        more = len(tickets) - self._room_for(tickets[0], free)
        if tickets[0].is_warm and self._others_work():  # it will not wait
            more = 0
        if wait + more > self._limit:
            raise QueueFull(
                f"no room for {len(tickets)} more: {free} can begin at once, {wait} of at most {self._limit} wait",
                retry_after=1.0,
            )
        self._check_share(tickets[0], more)
        for ticket in tickets:
            self._punctual.check(ticket)
        for ticket in tickets:
            self._cache.verdicts.add_root(ticket.prompt.root)
            self._join(ticket)

    def _join(self, ticket: Ticket) -> None:
        rank, place = ticket.rank, ticket.place
        self._give_place(ticket)
        self._queue[ticket.key] = _Waiting(ticket, Life(self._owner))
        self._order.add(Claim(ticket.key, place.number, trio.current_time(), rank.priority, ticket.owner, rank.weight))
        if self._observers.queued:
            length, standing = len(ticket.prompt), (rank.priority, place.number, place.goes_first)
            event = Queued(ticket.request_id, ticket.index, length, ticket.owner, *standing)
            self._observers.tell(self._observers.queued, event)

    def _give_place(self, ticket: Ticket) -> None:
        """Put a ticket behind all others, or where the one was whose place it takes."""
        place, before = ticket.place, ticket.succeeds
        self._places += 1
        place.number = min((one.number for one in before), default=self._places)
        place.goes_first = any(one.is_granted or one.goes_first for one in before)

    def _room_for(self, ticket: Ticket, free: int) -> int:
        """How many such need no further place in the queue: free slots take them, or they take over others' places."""
        return free if ticket.is_due else sum(not place.is_left for place in ticket.succeeds)

    def _slots_left_to(self, ticket: Ticket) -> set[int]:
        """Return the slots that warm requests leave for a ticket's sake."""
        return {record.slot.id for record in self._holds if record.is_warm and not ticket.is_warm}

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
        self._order.remove(ticket.key)

    def demote(self, ticket: Ticket) -> bool:
        """Let one that waits be less important than all others; False if it does not wait."""
        self._owner.check()
        if ticket.key not in self._queue:
            return False
        self._order.move(ticket.key, LEAST_IMPORTANT)
        return True

    def settle(self, ticket: Ticket, account: Account) -> None:
        """Correct what a generation was charged, which has ended."""
        self._owner.check()
        self._order.settle(ticket.key, account.computed)
        if account.slot is not None and ticket.rank.most_tokens != 0:
            self._lengths.learn(max(0, account.computed - (len(ticket.prompt) - account.cached)))

    def admit(self) -> None:
        """Grant the free slots to those who wait, in order; to each the one that costs it least."""
        self._owner.check()
        if self._held_back or not self._queue or self._is_made_way():
            return
        for waiting in self._heirs():
            if not self._grant(waiting):
                return
        while (key := self._order.next(trio.current_time(), self._is_passed_over)) is not None:
            if not self._grant(self._queue[key]):
                return

    def _is_made_way(self) -> bool:
        """Whether warm requests are leaving for those who wait, whom the slots that come free may suit best."""
        waits = any(not one.ticket.is_warm for one in self._queue.values())
        return waits and any(record.is_warm for record in self._holds)

    def _heirs(self) -> list[_Waiting]:
        """Those whose predecessor has left them a slot."""
        heirs = [
            one for key, one in self._queue.items() if one.ticket.place.goes_first and not self._is_passed_over(key)
        ]
        return sorted(heirs, key=lambda one: one.ticket.place.number)

    def _is_passed_over(self, key: GenerationKey) -> bool:
        """Whether one waits for somebody's end, or ends but has not left yet: a grant would give up KV for nobody."""
        waiting = self._queue[key]
        is_leaving = waiting.ticket.mark.at is not None or waiting.life.state is not State.QUEUED
        return is_leaving or not waiting.ticket.is_due or (waiting.ticket.is_warm and self._others_work())

    def _others_work(self) -> bool:
        """Whether somebody has work besides warm requests."""
        waits = any(not one.ticket.is_warm for one in self._queue.values())
        return waits or any(not record.is_warm for record in self._holds)

    def _grant(self, waiting: _Waiting) -> bool:
        """False if no slot is free, or the arena has not the room that is promised with one."""
        ticket = waiting.ticket
        if not self._table.extents.grantable([ticket.promise]):
            return False
        if (late := self._punctual.complaint(ticket)) is not None:
            ticket.note_cancel()  # it leaves the queue itself
            ticket.granted.set(outcome.Error(late))
            return True
        slot = self._table.grant(
            ticket.key,
            ticket.prompt,
            reuse=ticket.reuse,
            now=trio.current_time(),
            session=ticket.session,
            promise=ticket.promise,
        )
        assert slot is not None
        assert slot.before is not None
        self._cache.displace(slot.id, slot.before, len(slot.tokens))
        self._cache.count_hit("resident", len(slot.tokens))
        self._cache.leftovers.take(slot.tokens, 0, len(slot.tokens))
        waiting.life.take(Event.GRANTED)
        ticket.place.is_granted = True
        del self._queue[ticket.key]
        cost = len(ticket.prompt) - len(slot.tokens) + self._lengths.expected(ticket.rank.most_tokens)
        self._order.start(ticket.key, cost, trio.current_time())
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
