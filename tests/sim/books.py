"""Books of what the engine has told so far: who waits, who holds which slot, and what was asked for.

These books are kept from events alone, so they can be held against what the engine says of itself.  That both agree is
invariant I11: grants and releases pair up, and rows that were committed add up to what receipts say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.core.events import (
    Cancelled,
    Committed,
    Demoted,
    DeviceIsLost,
    Granted,
    HandedBack,
    Invalidated,
    Leader,
    Preempted,
    Queued,
    Released,
    Resumed,
    StepBegins,
    StepEnded,
    StepRaised,
    Submitted,
)
from actors.core.life import State
from actors.core.observer import Observer
from actors.core.receipts import Receipt
from actors.core.slots import SlotTable
from runtime.errors import DeviceLost

Owner = tuple[str, int]  # a generation: its request's id, and its index there


@dataclass(slots=True)
class Generation:
    """One that waits for a slot or holds one."""

    owner: Owner
    slot: int | None = None
    cancelled_at: float | None = None
    lost: bool = False  # the device was, and with it what this one has there or waits for
    phase: State = State.PREFILL
    leaders: tuple[Leader, ...] = ()
    pending: Submitted | None = None  # the rows that it waits for
    runs_alone: bool = False  # these were in a step that raised
    priority: int = 0
    computed: int = 0  # rows on the target
    committed: int = 0  # of these, since its slot was last given up
    receipt: Receipt | None = None
    preemptions: int = 0

    @property
    def is_alive(self) -> bool:
        """Return whether a slot may be granted to it, or rows run for it."""
        return self.cancelled_at is None and not self.lost


@dataclass(slots=True, eq=False)
class Books(Observer):
    """Books of who waits and who holds a slot, each in the order in which they came to it.

    Attributes:
        table: of the engine's slots.
        violated: told what cannot be.
        waiting, holding: by owner.
        cancelled_at: when each cancel was, on the executor's clock, of all generations there ever were.
        step: the one that runs now.
    """

    table: SlotTable
    violated: Callable[[str], None]
    waiting: dict[Owner, Generation] = field(default_factory=dict)
    holding: dict[Owner, Generation] = field(default_factory=dict)
    cancelled_at: dict[Owner, float] = field(default_factory=dict)
    step: StepBegins | None = None

    def find(self, owner: Owner) -> Generation | None:
        """One that waits or holds a slot."""
        return self.holding.get(owner) or self.waiting.get(owner)

    def holder(self, slot: int) -> Generation | None:
        """Return who holds that slot."""
        return next((one for one in self.holding.values() if one.slot == slot), None)

    # --- the queue and the slots --------------------------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        """Note a newcomer."""
        if self.find(event.key) is not None:
            self.violated(f"I11: {event.key} joins the queue twice")
        self.waiting[event.key] = Generation(event.key, priority=event.priority)
        self.cancelled_at.pop(event.key, None)  # of an earlier request with this id

    def demoted(self, event: Demoted) -> None:
        """Note that it is less important."""
        if (generation := self.find(event.key)) is None:
            self.violated(f"I11: {event.key} is demoted, and neither waits nor holds a slot")
        else:
            generation.priority = event.priority

    def granted(self, event: Granted | Resumed) -> None:
        """Note a grant, which nobody else may have of that slot."""
        generation = self.waiting.pop(event.key, None)
        if generation is None or not generation.is_alive:
            self.violated(f"I5: {event.key} is granted a slot, though not waiting for one")
            generation = generation or Generation(event.key)
        if (other := self.holder(event.slot)) is not None:
            self.violated(f"I1: slot {event.slot} is granted to {event.key}, and {other.owner} holds it")
        if self.table.slot(event.slot).owner != event.key:
            self.violated(f"I11: slot {event.slot} is granted to {event.key}, by what was told only")
        generation.slot, generation.leaders = event.slot, event.leaders
        self.holding[event.key] = generation

    def preempted(self, event: Preempted) -> None:
        """Note that one has left its slot, and waits as those do who never had one."""
        generation = self.holding.pop(event.key, None)
        if generation is None or not generation.is_alive or generation.slot != event.slot:
            self.violated(f"I23: {event.key} is preempted, and had not slot {event.slot}, or was cancelled before")
            generation = generation or Generation(event.key)
        generation.slot, generation.preemptions = None, generation.preemptions + 1
        if generation.preemptions != event.preemptions:
            self.violated(
                f"I23: {event.key} was preempted {generation.preemptions} times, and {event.preemptions} are told"
            )
        self.waiting[event.key] = generation

    def resumed(self, event: Resumed) -> None:
        """Note that it has one again, and is to ask anew for what it waited for."""
        generation = self.waiting.get(event.key)
        if generation is None or not generation.preemptions:
            self.violated(f"I23: {event.key} goes on, and was not preempted")
        else:
            generation.phase, generation.pending = State.PREFILL, None
        self.granted(event)

    def cancelled(self, event: Cancelled) -> None:
        """Note a cancel, of which there is one."""
        if event.key in self.cancelled_at:
            self.violated(f"I11: {event.key} is cancelled twice")
        self.cancelled_at[event.key] = event.at
        if (generation := self.find(event.key)) is not None:
            generation.cancelled_at = event.at

    def receipt(self, event: Receipt) -> None:
        """Hold a receipt against what was told."""
        owner = (event.request_id, event.index)
        generation = self.find(owner)
        if generation is None or generation.cancelled_at is None or generation.receipt is not None:
            self.violated(f"I11: {owner} has a receipt for a cancel that was not told, or a second one")
            return
        generation.receipt = event
        told = (generation.computed, generation.committed)
        if (event.computed_tokens, event.kept_tokens) != told:
            self.violated(f"I11: the rows told of are {told}, computed and kept; by the receipt {event}")
        if (event.phase in ("queued", "parked")) != (generation.slot is None):
            self.violated(f"I11: by what was told, {owner} held slot {generation.slot}; by the receipt {event}")
        if event.parks != generation.preemptions:
            self.violated(f"I23: {owner} was preempted {generation.preemptions} times; by the receipt {event}")

    def released(self, event: Released) -> None:
        """Note the end of a generation, whose slot is free by now."""
        generation = self.waiting.pop(event.key, None) or self.holding.pop(event.key, None)
        if generation is None or generation.slot != event.slot:
            self.violated(f"I11: {event.key} is released from slot {event.slot}, which it does not hold")
            return
        if event.slot is not None and self.table.slot(event.slot).owner is not None:
            self.violated(f"I11: slot {event.slot} is released, and not free")
        if len({event.reason is None, generation.cancelled_at is None, generation.receipt is None}) > 1:
            self.violated(f"I11: {event.key} ends: {event.reason}; cancelled at {generation.cancelled_at}")
        told = (generation.computed, generation.committed)
        if (event.computed_tokens, event.committed_tokens) != told:
            self.violated(f"I11: the rows told of are {told}, computed and committed; at the end {event}")

    # --- work ---------------------------------------------------------------------------------------------------------

    def submitted(self, event: Submitted) -> None:
        """Note what somebody waits for."""
        generation = self.holding.get(event.key)
        if generation is None or generation.pending is not None:
            self.violated(f"I11: {event.key} wants rows run, and holds no slot, or waits for others")
        elif not generation.lost:  # else it is told so
            generation.pending = event

    def handed_back(self, event: HandedBack) -> None:
        """Note that another has read these rows, which then leads no more."""
        self._answer(event.key)
        if event.key in self.holding:
            self.holding[event.key].leaders = ()

    def step_begins(self, event: StepBegins) -> None:
        """Note what runs."""
        if self.step is not None:
            self.violated("I2: two steps at a time")
        self.step = event
        for part in event.parts:
            if part.key in self.holding:
                self.holding[part.key].phase = part.phase

    def step_ended(self, event: StepEnded) -> None:
        """Note what was computed; everybody in the step has an answer, or is cancelled."""
        assert self.step is not None
        for part, result in zip(self.step.parts, event.result.segments, strict=True):
            self._answer(part.key)
            if part.key in self.holding and not event.drafting:
                self.holding[part.key].computed += result.rows
        self.step = None

    def step_raised(self, event: StepRaised) -> None:
        """Note who is to run alone, or else is told of the failure."""
        assert self.step is not None
        parts, self.step = self.step.parts, None
        for part in parts:
            if len(parts) == 1 or isinstance(event.error, DeviceLost):
                self._answer(part.key)
            elif part.key in self.holding:
                self.holding[part.key].runs_alone = True

    def committed(self, event: Committed) -> None:
        """Add up the rows."""
        if event.key not in self.holding:
            self.violated(f"I11: rows are committed for {event.key}, who holds no slot")
        elif not event.drafting:
            self.holding[event.key].committed += event.rows

    def invalidated(self, event: Invalidated) -> None:
        """Begin to count anew; its actor is told, and has no work until then."""
        if event.key in self.holding:
            self.holding[event.key].committed = 0
            self.holding[event.key].pending = None

    def device_lost(self, event: DeviceIsLost) -> None:
        """Note who goes with it."""
        for generation in [*self.holding.values(), *(() if event.queue_waits else self.waiting.values())]:
            generation.lost, generation.pending = True, None

    def _answer(self, owner: Owner) -> None:
        if owner in self.holding:
            self.holding[owner].pending, self.holding[owner].runs_alone = None, False
