"""Nobody starves: I8 of `tests.sim.invariants`, and how busy the device is, which is all that anyone may wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.core.events import ActorStage
from actors.core.life import State
from actors.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from actors.core.events import (
        DeviceIsBack,
        DeviceIsLost,
        Granted,
        Queued,
        Released,
        StageBegun,
        StepBegins,
        StepEnded,
        StepRaised,
        Submitted,
        TransferBegins,
        TransferEnded,
    )
    from actors.manager.slot_manager import SlotManager
    from tests.sim.books import Books, Generation, Owner

ROUNDING = 2e-6  # of seconds since the epoch as floats
MAX_DRAFTS = 40  # steps in a row: a round that has just begun for one, and those it then waits for


class Activity(Observer):
    """How many seconds the device, or a disk that somebody waits for, has been busy."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._total = 0.0
        self._since = 0.0
        self._going_on: set[Hashable] = set()

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self._total + (self._clock() - self._since if self._going_on else 0.0)

    def step_begins(self, event: StepBegins) -> None:
        """Begin a step."""
        self._begin("step")

    def step_ended(self, event: StepEnded) -> None:
        """End it."""
        self._end("step")

    def step_raised(self, event: StepRaised) -> None:
        """End it."""
        self._end("step")

    def transfer_begins(self, event: TransferBegins) -> None:
        """Begin to move KV."""
        self._begin("transfer")

    def transfer_ended(self, event: TransferEnded) -> None:
        """End that."""
        self._end("transfer")

    def device_lost(self, event: DeviceIsLost) -> None:
        """Begin to wait for the device, whatever it was at."""
        self._end("transfer")
        self._begin("recovery")

    def device_back(self, event: DeviceIsBack) -> None:
        """End that."""
        self._end("recovery")

    def stage_begun(self, event: StageBegun) -> None:
        """Begin or end a wait for the disk."""
        (self._begin if event.stage is ActorStage.FETCHING else self._end)(event.key)

    def released(self, event: Released) -> None:
        """End it, if it was cut short."""
        self._end(event.key)

    def _begin(self, what: Hashable) -> None:
        if not self._going_on:
            self._since = self._clock()
        self._going_on.add(what)

    def _end(self, what: Hashable) -> None:
        if what not in self._going_on:
            return
        self._going_on.remove(what)
        if not self._going_on:
            self._total += self._clock() - self._since


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a generation joined the queue, and how busy the device had been by then."""

    at: float
    busy: float


class Fairness(Observer):
    """Checks I8: slots are granted in order and without delay, and no step leaves out who could be in it.

    Args:
        manager: whose slots and cache are looked at.
        books: told of each event before this.
        activity: of the device.
        clock: of the engine.
        violated: told what does not hold.
    """

    def __init__(
        self,
        manager: SlotManager,
        books: Books,
        activity: Activity,
        clock: Callable[[], float],
        violated: Callable[[str], None],
    ) -> None:
        self._manager = manager
        self._books = books
        self._activity = activity
        self._clock = clock
        self._violated = violated
        self._arrivals: dict[Owner, Arrival] = {}
        self._waits_for_drafts = 0  # steps of the drafter, while someone has work for the target

    def queued(self, event: Queued) -> None:
        """Note when it came."""
        self._arrivals[event.key] = Arrival(self._clock(), self._activity.seconds)

    def granted(self, event: Granted) -> None:
        """Check that nobody was passed over, and that it waited for work and for nothing else."""
        for ahead in self._arrivals:
            if ahead == event.key:
                break
            generation = self._books.waiting.get(ahead)
            if generation is not None and generation.is_alive:
                self._violated(f"I8: {event.key} is granted a slot before {ahead}, who came earlier")
        mine = self._arrivals.pop(event.key, None)
        if mine is None:
            return  # which the books have complained of
        waited, worked = self._clock() - mine.at, self._activity.seconds - mine.busy
        if waited > worked + ROUNDING:
            self._violated(f"I8: {event.key} waited {waited:.6f} s, of which the device worked only {worked:.6f}")

    def released(self, event: Released) -> None:
        """Forget one that never had a slot."""
        self._arrivals.pop(event.key, None)

    def step_begins(self, event: StepBegins) -> None:
        """Check that nobody is left out who has work."""
        if self._manager.table.free and any(one.is_alive for one in self._books.waiting.values()):
            self._violated("I8: a step begins while a slot is free and somebody waits for one")
        ready = [(one, work) for one in self._books.holding.values() if (work := self._ready_work(one)) is not None]
        if any(one.runs_alone for one, _ in ready):
            return  # each of those who were in a step that raised runs alone
        served = {part.key for part in event.parts}
        oldest_prompt_is_served = False
        for one, work in ready:
            if (work.phase is State.DRAFT) != event.drafting:
                continue
            if one.owner in served:
                oldest_prompt_is_served |= work.is_bulk
            elif not (work.is_bulk and oldest_prompt_is_served):
                self._violated(f"I8: {one.owner} has work, and a step begins without it")
        self._check_target_waits(ready_for_target=any(work.phase is not State.DRAFT for _, work in ready), of=event)

    def _check_target_waits(self, *, ready_for_target: bool, of: StepBegins) -> None:
        waiting = of.drafting and ready_for_target
        self._waits_for_drafts = self._waits_for_drafts + 1 if waiting else 0
        if self._waits_for_drafts > MAX_DRAFTS:
            self._violated(f"I8: the target has work, and {self._waits_for_drafts} steps of the drafter go before it")

    def _ready_work(self, one: Generation) -> Submitted | None:
        """What it waits for, unless it is cancelled, may not write to its slot yet, or is led by another's reading."""
        assert one.slot is not None
        if not one.is_alive or self._manager.cache.waiting.any_of(one.slot) or self._is_led(one):
            return None
        return one.pending

    def _is_led(self, one: Generation) -> bool:
        for leader in one.leaders:
            other = self._books.holding.get((leader.request_id, leader.index))
            if other is None or other.cancelled_at is not None or other.phase is not State.PREFILL:
                continue
            if max(self._length(other), self._length(one)) < leader.shared_tokens:
                return True
        return False

    def _length(self, one: Generation) -> int:
        assert one.slot is not None
        return len(self._manager.table.slot(one.slot).tokens)
