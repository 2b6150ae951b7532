"""Admission: who waits for a slot, how many may, and whether they can be served in time.

Who of them is next, `actors.scheduling.order` says.
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
from actors.scheduling.order import Claim, Order
from actors.scheduling.punctuality import Punctuality
from actors.scheduling.shares import OutputLengths
from actors.scheduling.victims import LEVELS
from runtime.errors import QueueFull, RateLimited

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.core.account import Account
    from actors.core.commands import Enqueue
    from actors.core.hold import QueuePlace, Ticket
    from actors.core.holds import HoldRecord, Holds
    from actors.core.observer import Observers
    from actors.core.slot_views import GenerationKey
    from actors.core.slots import SlotTable
    from actors.kv.prefix_cache import PrefixCache
    from actors.preemption.preemption import Preemption
    from actors.scheduling.costs import StepCosts


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A ticket in the queue.

    Attributes:
        ticket, life: whose it is, and where that is in its life.
        grants: how many slots had been granted when it began to wait.
        preempted: what it had, if it has left its slot.
    """

    ticket: Ticket
    life: Life
    grants: int
    preempted: HoldRecord | None = None

    @property
    def waits(self) -> bool:
        """Return whether it may be granted a slot: nobody has ended it."""
        return self.ticket.mark.at is None and self.life.state in (State.QUEUED, State.PREEMPTED)


class Admission:
    """The queue; the slot manager's task alone changes it.

    Whoever takes over another's place is served as if it had come when that one came, or next, if that one had a slot;
    and nobody before those have left whom it waits for.

    Args:
        table, cache, holds, preemption, observers, costs: the manager's.
        limit: how many may wait.
        ageing: seconds that count as one level of priority for a class that is passed over.
    """

    def __init__(
        self,
        table: SlotTable,
        cache: PrefixCache,
        holds: Holds,
        preemption: Preemption,
        observers: Observers,
        costs: StepCosts,
        *,
        limit: int,
        ageing: float,
    ) -> None:
        self._table = table
        self._cache = cache
        self._holds = holds
        self._preemption = preemption
        self._observers = observers
        self._limit = limit
        self._owner = table.owner
        self._queue: dict[GenerationKey, _Waiting] = {}
        self._order: Order[GenerationKey] = Order(ageing)
        self._lengths = OutputLengths()
        self._places = 0  # given so far
        self._punctual = Punctuality(table, holds, cache.tiers.reach, costs.target)
        self._held_back = False  # no slot is granted: no step can run
        self._closed: str | None = None  # why nobody may wait

    @property
    def tickets(self) -> Sequence[Ticket]:
        """Tickets in the queue: the better class first, and in a class those who came first."""
        return [self._queue[key].ticket for key in self._order]

    def enqueue(self, command: Enqueue) -> None:
        """Give every ticket a place in the queue, or none of them; the command is answered."""
        self._owner.check()
        admitted = outcome.capture(self._enqueue, command.tickets)
        if isinstance(admitted, outcome.Error):
            for ticket in command.tickets:  # one that came meanwhile may wait for its place, or for its end
                ticket.place.is_left = True
        command.reply.set(admitted)

    def _enqueue(self, tickets: Sequence[Ticket]) -> None:
        if self._closed is not None:
            raise device_lost(self._closed)
        ahead = [one.ticket for one in self._queue.values() if tickets[0].is_warm or not one.ticket.is_warm]
        reservations = [one.reserved for one in (*(one for one in ahead if one.is_due), *tickets)]
        free, wait = self._table.pages.grantable(reservations, _slots_left_to(tickets[0], self._holds)), len(ahead)
        more = len(tickets) - _room_for(tickets[0], free)
        if tickets[0].is_warm and self._others_work():  # it will not wait
            more = 0
        if wait + more > self._limit:
            raise QueueFull(
                f"no room for {len(tickets)} more: {free} can begin at once, {wait} of at most {self._limit} wait",
                retry_after=1.0,
            )
        _check_share(tickets[0], more, [one.ticket.owner for one in self._queue.values()], self._limit)
        for ticket in tickets:
            self._punctual.check(ticket, trio.current_time())
        for ticket in tickets:
            self._cache.invalidation.add_root(ticket.prompt.root)
            self._join(ticket)

    def _join(self, ticket: Ticket) -> None:
        rank, place = ticket.rank, ticket.place
        self._places += 1
        _take_place(ticket, self._places)
        self._queue[ticket.key] = _Waiting(ticket, Life(self._owner), self._table.grants)
        self._order.add(Claim(ticket.key, place.number, trio.current_time(), rank.priority, ticket.owner, rank.weight))
        if self._observers.queued:
            length, standing = len(ticket.prompt), (rank.priority, place.number, place.goes_first)
            event = Queued(ticket.request_id, ticket.index, length, ticket.owner, *standing)
            self._observers.tell(self._observers.queued, event)

    def withdraw(self, ticket: Ticket) -> HoldRecord | None:
        """Take a ticket out of the queue; returns what it had, if it was preempted."""
        self._owner.check()
        waiting = self._queue.pop(ticket.key)
        waiting.life.take(Event.CANCELLED)
        self._order.remove(ticket.key)
        return waiting.preempted

    def demote(self, ticket: Ticket) -> bool:
        """Let one that waits be less important than all others; False if it does not wait."""
        self._owner.check()
        waiting = self._queue.get(ticket.key)
        if waiting is None:
            return False
        if waiting.preempted is not None:
            waiting.preempted.demote()
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
        if self._held_back or not self._queue or self._waits_for_warm():
            return
        for waiting in self._successors():
            if not self._grant(waiting):
                return
        while (key := self._order.next(trio.current_time(), self._is_passed_over)) is not None:
            if not self._grant(self._queue[key]):
                return

    def _waits_for_warm(self) -> bool:
        """Return whether warm requests are leaving for those who wait, whom the slots that come free may suit best."""
        waits = any(not one.ticket.is_warm for one in self._queue.values())
        return waits and any(record.is_warm for record in self._holds)

    def preempt_for_waiting(self) -> None:
        """Preempt the less important for the most important who waits, if that brings it a slot; only between steps."""
        self._owner.check()
        if self._held_back or self._waits_for_warm():
            return
        while (waiting := self._most_important()) is not None:
            priority = self._order.priority_of(waiting.ticket.key)
            victims = self._preemption.victims(priority, waiting.ticket.reserved, before=waiting.grants)
            if not victims:
                return
            if self._is_late(waiting, victims):
                self.admit()  # who comes behind it may fit in as it is
                continue
            for record in victims:
                self.wait_again(record, by=waiting.ticket)
            granted = self._grant(waiting)
            assert granted, f"{waiting.ticket.key} is granted no slot, and {len(victims)} were preempted for it"

    def _most_important(self) -> _Waiting | None:
        if successors := self._successors():
            return successors[0]
        key = self._order.most_important(self._is_passed_over)
        return None if key is None else self._queue[key]

    def wait_again(self, record: HoldRecord, by: Ticket | None) -> None:
        """Preempt one that has a slot: it waits in its old place, the less long the more often it was preempted."""
        self._owner.check()
        ticket, place = record.hold.ticket, record.hold.ticket.place
        self._preemption.preempt(record, by)
        place.is_granted = place.goes_first = False
        self._queue[ticket.key] = _Waiting(ticket, record.life, self._table.grants, record)
        standing = record.priority, ticket.owner, ticket.rank.weight, record.ledger.preemptions * LEVELS
        self._order.add(Claim(record.key, place.number, trio.current_time(), *standing))

    def _successors(self) -> list[_Waiting]:
        """Return those whose predecessor has left them a slot."""
        successors = [one for one in self._queue.values() if one.ticket.place.goes_first]
        ready = [one for one in successors if not self._is_passed_over(one.ticket.key)]
        return sorted(ready, key=lambda one: one.ticket.place.number)

    def _is_passed_over(self, key: GenerationKey) -> bool:
        """Return whether one waits for another's end, or ends but has not left: a grant would give up KV for nobody."""
        waiting = self._queue[key]
        is_in_the_way = waiting.ticket.is_warm and self._others_work()
        return not waiting.waits or not waiting.ticket.is_due or is_in_the_way or not self._preemption.is_copied(key)

    def _others_work(self) -> bool:
        """Return whether somebody has work besides warm requests."""
        waits = any(not one.ticket.is_warm for one in self._queue.values())
        return waits or any(not record.is_warm for record in self._holds)

    def _grant(self, waiting: _Waiting) -> bool:
        """False if no slot is free, or the pool has not the room that is reserved with one."""
        ticket = waiting.ticket
        record = waiting.preempted
        prompt = ticket.prompt if record is None else record.hold.prompt
        reuse = ticket.reuse if record is None else record.may_reuse
        reserved, expected = ticket.reserved, self._holds.shared_with(prompt) if reuse and record is None else 0
        if not (granted := self._table.pages.grantable([reserved - expected])) or self._is_late(waiting):
            return bool(granted)
        key, now, session, private = ticket.key, trio.current_time(), ticket.session, not ticket.reuse
        self._preemption.retained_places.take(key, prompt, reuse=reuse, session=session)
        slot = self._table.grant(
            key, prompt, reuse=reuse, now=now, session=session, reserved=reserved, expected=expected, private=private
        )
        assert slot is not None
        assert slot.before is not None
        self._cache.displace(slot.id, slot.before, len(slot.tokens))
        self._cache.count_hit("resident", len(slot.tokens))
        self._cache.salvaged.take(slot.tokens, 0, len(slot.tokens))
        ticket.place.is_granted = True
        del self._queue[ticket.key]
        _leave_to_successors(ticket.place, [one.ticket for one in self._queue.values()])
        is_demoted = self._order.priority_of(ticket.key) == LEAST_IMPORTANT
        if record is not None:
            self._order.resume(ticket.key, trio.current_time())
            self._preemption.bring_back(record, slot)
            if is_demoted:
                record.demote()
            return True
        waiting.life.take(Event.GRANTED)
        cost = len(ticket.prompt) - len(slot.tokens) + self._lengths.expected(ticket.rank.most_tokens)
        self._order.start(ticket.key, cost, trio.current_time())
        record = self._holds.add(ticket, slot, waiting.life, self._table.grants)
        if is_demoted:
            record.demote()
        if self._observers.granted:
            event = Granted(*ticket.key, slot.id, len(slot.tokens), record.leaders)
            self._observers.tell(self._observers.granted, event)
        ticket.granted.set(outcome.Value(record.hold))
        return True

    def _is_late(self, waiting: _Waiting, victims: Collection[HoldRecord] = ()) -> bool:
        """Return whether one leaves the queue, as its first token would come too late with these preempted for it."""
        if waiting.preempted is not None:
            return False
        if (late := self._punctual.complaint(waiting.ticket, trio.current_time(), victims)) is None:
            return False
        waiting.ticket.note_cancel()  # it leaves the queue itself
        waiting.ticket.granted.set(outcome.Error(late))
        return True

    def hold_back(self) -> None:
        """Grant nothing until `resume`."""
        self._owner.check()
        self._held_back = True

    def turn_away(self, why: str) -> None:
        """End everybody's wait, and let nobody wait, until `resume`."""
        self._owner.check()
        self._held_back, self._closed = True, why
        for waiting in self._queue.values():
            if waiting.preempted is not None:
                waiting.preempted.lose(why)
            elif waiting.life.state is State.QUEUED:
                waiting.life.take(Event.DEVICE_LOST)
                waiting.ticket.granted.set(outcome.Error(device_lost(why)))

    def resume(self) -> None:
        """Slots can be granted again."""
        self._owner.check()
        self._held_back, self._closed = False, None


def _take_place(ticket: Ticket, last: int) -> None:
    """Put a ticket behind all others, at the number `last`, or where the one was whose place it takes."""
    place, before = ticket.place, ticket.succeeds
    place.number = min((one.number for one in before), default=last)
    place.goes_first = any(one.is_granted or one.goes_first for one in before)


def _leave_to_successors(place: QueuePlace, waiting: Sequence[Ticket]) -> None:
    """Let those go first who have come for a place that is in a slot only since.

    Args:
        place: just granted.
        waiting: as they came, so that who takes over a successor's place comes behind it.
    """
    left = [place]
    for ticket in waiting:
        if any(before in left for before in ticket.succeeds):
            ticket.place.goes_first = True
            left.append(ticket.place)


def _room_for(ticket: Ticket, free: int) -> int:
    """Return how many such need no place in the queue: free slots take them, or they take over others' places."""
    return free if ticket.is_due else sum(not place.is_left for place in ticket.succeeds)


def _check_share(first: Ticket, more: int, owners: Sequence[str | None], limit: int) -> None:
    """Raise RateLimited if one owner's tickets, of which so many would wait, are too many beside those who wait."""
    if first.queue_share >= 1:
        return
    places, waiting = int(first.queue_share * limit), owners.count(first.owner)
    if waiting + more > places:
        message = f"The API key {first.owner} may have {places} generations wait; {waiting} do."
        raise RateLimited(message, retry_after=1.0)


def _slots_left_to(ticket: Ticket, holds: Holds) -> set[int]:
    """Return the slots that warm requests leave for a ticket's sake."""
    return {record.slot.id for record in holds if record.is_warm and not ticket.is_warm}
