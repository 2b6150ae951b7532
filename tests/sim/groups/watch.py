"""I21: groups, races and successors, by what was told of them and nothing else.

Who belongs to whom follows from what each request said when it arrived (`actors.control`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from actors.core.events import (
    Arrived,
    Committed,
    Departed,
    Ended,
    Granted,
    Queued,
    Released,
    Resumed,
    StepBegins,
    StepEnded,
    StepRaised,
)
from actors.core.generation import Finished, FinishReason, GenerationRequest
from actors.core.hold import QueuePlace, Ticket
from actors.core.observer import Observer
from actors.core.receipts import CancelReason, Receipt
from actors.manager.slot_manager import SlotManager
from tests.sim.books import Books


@dataclass(slots=True)
class Relative:
    """A request as it is told of; numbers count what was told, in order."""

    asked: GenerationRequest
    arrived: int
    departed: bool = False
    group_ended_at: float = math.inf
    last_commit: int = 0
    whole: set[int] = field(default_factory=set)  # generations that finished well
    won: int | None = None  # the last commit of one that ran in a race, and finished well

    def shares(self, other: Relative, name: str) -> bool:
        """Return whether both said the same of `name`, which is not nothing, and have one owner."""
        mine, others = getattr(self.asked.control, name), getattr(other.asked.control, name)
        return mine is not None and mine == others and self.asked.owner == other.asked.owner


class GroupWatch(Observer):
    """Checks I21.

    Args:
        manager: whose queue is looked at.
        books: told of each event before this.
        clock: of the engine.
        violated: told what does not hold.
    """

    def __init__(
        self, manager: SlotManager, books: Books, clock: Callable[[], float], violated: Callable[[str], None]
    ) -> None:
        self._manager = manager
        self._books = books
        self._clock = clock
        self._violated = violated
        self._told = 0
        self._all: dict[str, Relative] = {}  # by id, of which the newest counts
        self._last_end = -math.inf
        self._met_ended: set[str] = set()
        self._successors: set[str] = set()  # whose predecessor's slot has come free
        self._places: dict[tuple[str, int], QueuePlace] = {}

    def group_ends(self, owner: str | None, name: str) -> set[str]:
        """Note that somebody ends a group now; returns who must end."""
        ended = {
            request_id
            for request_id, one in self._all.items()
            if not one.departed and one.asked.owner == owner and _is_in(one.asked.control.group, name)
        }
        for request_id in ended:
            self._all[request_id].group_ended_at = min(self._all[request_id].group_ended_at, self._clock())
        return ended

    # --- what is told -------------------------------------------------------------------------------------------------

    def arrived(self, event: Arrived) -> None:
        """Note a newcomer."""
        self._told += 1
        self._all[event.asked.id] = Relative(event.asked, self._told)

    def departed(self, event: Departed) -> None:
        """Note that one is gone."""
        self._all[event.asked.id].departed = True
        self._successors.discard(event.asked.id)

    def granted(self, event: Granted | Resumed) -> None:
        """Check that it was to be granted a slot."""
        mine = self._all[event.request_id]
        self._take_turn(event)
        if mine.group_ended_at < self._clock():
            self._violated(f"I21: {event.key} is granted a slot, and its group was ended")
        for other in self._in_slots(besides=event.request_id):
            if mine.shares(other, "supersede"):
                self._violated(f"I21: {event.key} is granted a slot beside {other.asked.id}, whose place it takes")
        after = self._all.get(mine.asked.control.after or "")
        live = {key[0] for key in (*self._books.waiting, *self._books.holding)}
        if after is not None and after.asked.owner == mine.asked.owner and after.asked.id in live:
            self._violated(f"I21: {event.key} is granted a slot before {after.asked.id} has ended")

    def _take_turn(self, event: Granted | Resumed) -> None:
        """Take one from those whose turn it is: whoever was granted the slot, or whom an earlier successor goes before.

        That is one whose own slot went to somebody else while it waited for another's end.
        """
        place = self._places[event.key]
        later = [one for one in self._successors if self._places[one, 0].number > place.number]
        if event.request_id in self._successors:
            self._successors.discard(event.request_id)
        elif place.goes_first and later:
            self._successors.discard(max(later, key=lambda one: self._places[one, 0].number))

    def queued(self, event: Queued) -> None:
        """Note its place."""
        self._places[event.key] = next(ticket.place for ticket in self._manager.queue if ticket.key == event.key)

    def resumed(self, event: Resumed) -> None:
        """Check the same of one that was preempted."""
        self.granted(event)

    def released(self, event: Released) -> None:
        """Note whose turn it is, where a slot came free that has a successor."""
        left = self._all[event.request_id]
        if event.slot is None or len(left.asked.prompts) > 1:
            return
        due = {ticket.request_id for ticket in self._manager.queue if ticket.is_due}
        successors = [one for one in self._all.values() if one.shares(left, "supersede") and one.arrived > left.arrived]
        newest = max(successors, key=lambda one: one.arrived, default=None)
        if newest is not None and newest.asked.id in due and len(newest.asked.prompts) == 1:
            self._successors.add(newest.asked.id)

    def committed(self, event: Committed) -> None:
        """Note when that was."""
        self._told += 1
        self._all[event.request_id].last_commit = self._told

    def ended(self, event: Ended) -> None:
        """Check that of those who ran against each other one has won."""
        mine = self._all[event.request_id]
        if not isinstance(event.last, Finished) or event.last.reason is FinishReason.CANCELLED:
            return
        mine.whole.add(event.index)
        if not mine.asked.control.first_wins or len(mine.whole) < len(mine.asked.prompts):
            return
        mine.won = mine.last_commit
        for other in self._all.values():
            runs = other.asked.control.first_wins and other is not mine and mine.shares(other, "group")
            if runs and other.won is not None and mine.arrived < other.won:
                self._violated(f"I21: {mine.asked.id} and {other.asked.id} have both won")

    def receipt(self, event: Receipt) -> None:
        """Check that somebody among the requests related to it was the reason."""
        mine = self._all[event.request_id]
        others = [other for other in self._all.values() if other is not mine]
        match event.reason:
            case CancelReason.GROUP:
                is_true = mine.group_ended_at < math.inf
            case CancelReason.SUPERSEDED:
                is_true = any(mine.shares(other, "supersede") and other.arrived > mine.arrived for other in others)
            case CancelReason.SIBLING_WON:
                runs = [other for other in others if other.asked.control.first_wins and mine.shares(other, "group")]
                is_true = mine.asked.control.first_wins and any(other.last_commit for other in runs)
            case _:
                return
        if not is_true:
            self._violated(f"I21: {event.request_id} was cancelled for {event.reason}, and nobody gave reason to")

    def _could_begin(self, ticket: Ticket) -> bool:
        """Return whether it waits for no room in the arena, of which it may need more than who left."""
        table = self._manager.table
        return not (table.free and not table.pages.grantable([ticket.reserved]))

    # --- a step's boundaries ------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Check that whoever was ended has left, and that successors have what was left to them."""
        for one in self._in_slots():
            if one.group_ended_at < self._last_end or one.asked.id in self._met_ended:
                self._violated(f"I21: the group of {one.asked.id} was ended, a step has ended since, and it has a slot")
            if one.group_ended_at < math.inf:
                self._met_ended.add(one.asked.id)
        queue = self._manager.queue
        successors = [one for one in queue if one.place.goes_first and one.is_due and one.mark.at is None]
        successors = [one for one in successors if not one.is_warm]  # which leaves to those who work what is free
        successors.sort(key=lambda ticket: ticket.place.number)
        # The first that waits for room has all the others wait behind it.
        waiting = {ticket.request_id for ticket in takewhile(self._could_begin, successors)}
        for successor in self._successors & waiting:
            generation = self._books.waiting.get((successor, 0))
            if generation is not None and generation.is_alive:
                self._violated(f"I21: {successor} waits, and the slot that was left to it is another's")
        self._successors.clear()

    def step_ended(self, event: StepEnded) -> None:
        """Note when that was."""
        self._last_end = self._clock()

    def step_raised(self, event: StepRaised) -> None:
        """Note when that was."""
        self._last_end = self._clock()

    def _in_slots(self, *, besides: str | None = None) -> Iterator[Relative]:
        ids = {key[0] for key in self._books.holding} - {besides}
        return (self._all[request_id] for request_id in sorted(ids))


def _is_in(name: str | None, group: str) -> bool:
    """Return whether a group is another, or below it."""
    return name is not None and name.split("/")[: group.count("/") + 1] == group.split("/")
