"""Nobody starves: I8 of `tests.sim.invariants`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.core.events import (
    Demoted,
    Granted,
    Preempted,
    Queued,
    Released,
    Resumed,
    StepBegins,
    Submitted,
    TransferBegins,
)
from actors.core.life import State
from actors.core.observer import Observer
from actors.manager.slot_manager import SlotManager
from actors.scheduling.order import MAX_LEVELS
from actors.scheduling.victims import LEVELS
from tests.sim.books import Books, Generation, Owner
from tests.sim.order.activity import Activity

ROUNDING = 2e-6  # of seconds since the epoch as floats
MAX_STEPS_WITHOUT_ROOM = 300  # in a row, of one who waits for room in the arena: some hundred positions move in each
MAX_PASSED_OVER = 6  # steps in a row, of one who has work at each: it may have had none when its turn came
MAX_DRAFTS = 40  # steps in a row: a round that has just begun for one, and those it then waits for


@dataclass(frozen=True, slots=True)
class Arrival:
    """Arrival of a generation in the queue: when, and in whose line it waits.

    Attributes:
        at, busy: when it joined, or nobody was left for whom it waits; and how busy the device had been by then.
        number: of its place; in one line the lower goes first.
        goes_first: it takes a slot that was left to it.
        since: when it joined.
        levels: of ageing that it has, for it was preempted.
    """

    at: float
    busy: float
    number: int
    goes_first: bool
    owner: str | None
    priority: int
    since: float
    levels: int = 0


class Fairness(Observer):
    """Checks I8: slots are granted in order and without delay, and no step leaves out who could be in it.

    In order means: one owner's of one priority as they came; and a worse priority before a better one only when it was
    passed over for as long as that takes (`actors.scheduling.order`).

    Args:
        manager: whose slots and cache are looked at.
        books: told of each event before this.
        activity: of the device.
        clock: of the engine.
        violated: told what does not hold.
        ageing: seconds that count as one level of priority.
    """

    def __init__(
        self,
        manager: SlotManager,
        books: Books,
        activity: Activity,
        clock: Callable[[], float],
        violated: Callable[[str], None],
        ageing: float,
    ) -> None:
        self._ageing = ageing
        self._served: dict[int, float] = {}  # when a class last was, as long as somebody waits there
        self._manager = manager
        self._books = books
        self._activity = activity
        self._clock = clock
        self._violated = violated
        self._arrivals: dict[Owner, Arrival] = {}
        self._granted: dict[Owner, Arrival] = {}  # of those who hold a slot
        self._were_due: set[Owner] = set()
        self._without_room: Counter[Owner] = Counter()  # steps that began while it waited for that
        self._passed_over: Counter[Owner] = Counter()  # steps of the target, for a more important prompt's sake
        self._was_turn_of_others = False  # at the last step of the target
        self._waits_for_drafts = 0  # steps of the drafter, while someone has work for the target

    def queued(self, event: Queued) -> None:
        """Note when it came."""
        self._begin_class(event.priority)
        now = self._clock()
        standing = (event.number, event.goes_first, event.owner, event.priority)
        self._arrivals[event.key] = Arrival(now, self._activity.seconds, *standing, since=now)
        self._were_due = self._due()

    def demoted(self, event: Demoted) -> None:
        """Note that it waits in another line from now on."""
        if (arrival := self._arrivals.get(event.key)) is not None:
            self._begin_class(event.priority)
            self._arrivals[event.key] = replace(arrival, priority=event.priority)
        if (held := self._granted.get(event.key)) is not None:
            self._granted[event.key] = replace(held, priority=event.priority)

    def preempted(self, event: Preempted) -> None:
        """Let one wait anew, in its old place."""
        held = self._granted.pop(event.key, None)
        if held is None:
            return  # which the books have complained of
        levels = event.preemptions * LEVELS
        now = self._clock()
        again = replace(held, at=now, busy=self._activity.seconds, since=now, goes_first=False, levels=levels)
        self._begin_class(again.priority)
        self._arrivals[event.key] = again
        self._were_due = self._due()

    def _begin_class(self, priority: int) -> None:
        """Forget when a class was served in which nobody waits: who comes next begins it anew."""
        if all(arrival.priority != priority for arrival in self._arrivals.values()):
            self._served.pop(priority, None)

    def resumed(self, event: Resumed) -> None:
        """Check the same as of a first grant."""
        self.granted(event)

    def granted(self, event: Granted | Resumed) -> None:
        """Check that nobody was passed over, and that it waited for work and for nothing else."""
        mine = self._arrivals.pop(event.key, None)
        if mine is None:
            return  # which the books have complained of
        due = self._due()
        for other, theirs in self._arrivals.items():
            if other in due:
                self._check_order(event.key, mine, other, theirs)
        self._note_successors()
        self._granted[event.key] = mine
        self._served[mine.priority] = self._clock()
        waited, worked = self._clock() - mine.at, self._activity.seconds - mine.busy
        if waited > worked + ROUNDING:
            self._violated(f"I8: {event.key} waited {waited:.6f} s, of which the device worked only {worked:.6f}")

    def _note_successors(self) -> None:
        """Note to whom slots are left: whose place somebody has come for may be granted one after that."""
        for ticket in self._manager.queue:
            if (arrival := self._arrivals.get(ticket.key)) is not None:
                self._arrivals[ticket.key] = replace(arrival, goes_first=ticket.place.goes_first)

    def _check_order(self, key: Owner, mine: Arrival, other: Owner, theirs: Arrival) -> None:
        """Check that the one who is granted a slot may have it before another."""
        if mine.goes_first:
            return
        if theirs.goes_first:
            self._violated(f"I8: {key} is granted a slot before {other}, whose predecessor has left one")
        if (mine.owner, mine.priority) == (theirs.owner, theirs.priority) and theirs.number < mine.number:
            self._violated(f"I8: {key} is granted a slot before {other}, who came earlier")
        passed_over = self._clock() - max(mine.since, self._served.get(mine.priority, mine.since))
        passed_over += mine.levels * self._ageing
        if passed_over < min(mine.priority - theirs.priority, MAX_LEVELS) * self._ageing - ROUNDING:
            self._violated(f"I8: {key} is granted a slot before {other}, who is more important")

    def released(self, event: Released) -> None:
        """Forget one that never had a slot, and let the time of those begin who waited for it alone."""
        self._arrivals.pop(event.key, None)
        self._granted.pop(event.key, None)
        for key in self._due() - self._were_due:
            if (arrival := self._arrivals.get(key)) is not None:
                self._arrivals[key] = replace(arrival, at=self._clock(), busy=self._activity.seconds)
        self._were_due = self._due()

    def step_begins(self, event: StepBegins) -> None:
        """Check that nobody is left out who has work."""
        if self._could_be_granted():
            self._violated("I8: a step begins while a slot is free and somebody waits for one")
        ready = [(one, work) for one in self._books.holding.values() if (work := self._ready_work(one)) is not None]
        if any(one.runs_alone for one, _ in ready):
            return  # each of those who were in a step that raised runs alone
        served = {part.key for part in event.parts}
        first = [one for one, work in ready if work.phase is State.PREFILL]
        first += [one for one in self._books.holding.values() if self._awaits_copies(one)]
        best = min(map(self._importance, first), default=math.inf)
        oldest_prompt_is_served = False
        is_turn_of_others = self._is_turn_of_others(event, best)
        for one, work in sorted(ready, key=lambda pair: self._importance(pair[0])):
            if (work.phase is State.DRAFT) != event.drafting:
                continue
            if one.owner in served:
                oldest_prompt_is_served |= work.is_bulk
                self._passed_over.pop(one.owner, None)
            elif work.phase is not State.PREFILL and self._importance(one) > best:
                self._pass_over(one, event)
            elif work.phase is State.PREFILL and is_turn_of_others:
                continue
            elif not (work.is_bulk and oldest_prompt_is_served):
                self._violated(f"I8: {one.owner} has work, and a step begins without it")
        self._check_target_waits(ready_for_target=any(work.phase is not State.DRAFT for _, work in ready), of=event)

    def transfer_begins(self, event: TransferBegins) -> None:
        """Let a turn of the others follow: they may have waited while KV was moved out of a prompt's way."""
        self._was_turn_of_others = False

    def _is_turn_of_others(self, step: StepBegins, best: float) -> bool:
        """Return whether a step is for those who are less important than a prompt: they do not share one with it.

        Two in a row are not, unless KV was moved in between.
        """
        keys = {part.key for part in step.parts if part.phase is not State.PREFILL}
        behind = any(self._importance(one) > best for one in self._books.holding.values() if one.owner in keys)
        is_turn = behind and len(keys) == len(step.parts)
        if not step.drafting:
            is_turn, self._was_turn_of_others = is_turn and not self._was_turn_of_others, is_turn
        return is_turn

    def _pass_over(self, one: Generation, step: StepBegins) -> None:
        """Check that it does not last: a more important prompt is read, and goes first."""
        self._passed_over[one.owner] += not step.drafting
        if self._passed_over[one.owner] > MAX_PASSED_OVER:
            self._violated(f"I8: {one.owner} has work, and a more important prompt is read in step after step")

    def _due(self) -> set[Owner]:
        """Return those who wait for a slot and for nobody's end."""
        alive = {one.owner for one in self._books.waiting.values() if one.is_alive}
        due = {ticket.key for ticket in self._manager.queue if ticket.is_due} & alive
        warm = {ticket.key for ticket in self._manager.queue if ticket.is_warm}
        warm |= {record.key for record in self._manager.holds if record.is_warm}
        others_work = {*self._books.waiting, *self._books.holding} - warm
        due = due - warm if others_work else due
        return {key for key in due if self._manager.preemption.is_copied(key)}

    def _could_be_granted(self) -> bool:
        """Return whether a slot is free, and the arena has room for all that anybody who waits may come to need.

        Not where one that is preempted is still being copied.  It may have become so when room was made just now, and
        have been next until then, by its age: then nobody was served before it.
        """
        if not all(self._manager.preemption.is_copied(ticket.key) for ticket in self._manager.queue):
            return False
        due = self._due()
        reservations = [ticket.reserved for ticket in self._manager.queue if ticket.key in due]
        return bool(reservations and self._manager.table.pages.grantable([max(reservations)]))

    def _check_target_waits(self, *, ready_for_target: bool, of: StepBegins) -> None:
        waiting = of.drafting and ready_for_target
        self._waits_for_drafts = self._waits_for_drafts + 1 if waiting else 0
        if self._waits_for_drafts > MAX_DRAFTS:
            self._violated(f"I8: the target has work, and {self._waits_for_drafts} steps of the drafter go before it")

    def _ready_work(self, one: Generation) -> Submitted | None:
        """Return what it waits for, unless it is cancelled, may not write to its slot yet, or is led by another reader.

        Nor what there is no room for yet; but that must not last.
        """
        assert one.slot is not None
        if not one.is_alive or self._manager.cache.waiting.any_of(one.slot) or self._is_led(one):
            return None
        if one.pending is None or self._has_space(one.slot, one.pending):
            self._without_room.pop(one.owner, None)
            return one.pending
        self._without_room[one.owner] += 1
        if self._without_room[one.owner] > MAX_STEPS_WITHOUT_ROOM:
            self._violated(f"I8: {one.owner} waits for room in the arena, and steps go on without it")
        return None

    def _awaits_copies(self, one: Generation) -> bool:
        """Return whether it cannot go on before KV was moved out of its way."""
        if one.slot is None or not one.is_alive:
            return False
        table, record = self._manager.table, self._manager.holds.get(one.owner)
        slot, needed = table.slot(one.slot), 0 if record is None else len(record.hold.prompt)
        waits = self._manager.cache.waiting.any_of(one.slot) or table.pages.must_be_owned(slot)
        return waits or needed > slot.capacity or not (one.pending is None or self._has_space(one.slot, one.pending))

    def _has_space(self, slot_id: int, work: Submitted) -> bool:
        table = self._manager.table
        slot = table.slot(slot_id)
        start = table.draft_start(slot) if work.phase is State.DRAFT else len(slot.tokens)
        return start + work.rows <= slot.capacity and not table.pages.must_be_owned(slot)

    def _is_led(self, one: Generation) -> bool:
        return bool(self._led_by(one))

    def _led_by(self, one: Generation) -> set[Owner]:
        """Return those who are reading what it shares with them."""
        leaders: set[Owner] = set()
        for leader in one.leaders:
            other = self._books.holding.get((leader.request_id, leader.index))
            if other is None or other.cancelled_at is not None or other.phase is not State.PREFILL:
                continue
            if max(self._length(other), self._length(one)) < leader.shared_tokens:
                leaders.add(other.owner)
        return leaders

    def _importance(self, one: Generation) -> int:
        """Return its priority, or that of somebody more important who waits for what it reads."""
        led = [other.priority for other in self._books.holding.values() if one.owner in self._led_by(other)]
        return min([one.priority, *led])

    def _length(self, one: Generation) -> int:
        assert one.slot is not None
        return len(self._manager.table.slot(one.slot).tokens)
