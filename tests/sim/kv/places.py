"""The arena of KV in the simulation: scenarios in which it is small, and I22, that each sequence has its own place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from runtime.step.transfer import Copy, Relocate

if TYPE_CHECKING:
    import random

    from actors.core.events import StepBegins, StepEnded, StepPart, StepRaised, TransferBegins
    from tests.sim.scenario import Scenario
    from tests.sim.watch import Watch


def with_small_arena(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same, in two scenarios of five, with less KV than the slots would have at their longest, and more of them.

    Some of those who come say more than they usually do, so that sequences outgrow the place where they began.
    """
    if dice.random() > 2 / 5:
        return scenario
    slots = scenario.slots + dice.choice([1, 2, 4])
    visits = tuple(
        replace(visit, max_tokens=dice.randint(40, 200)) if visit.max_tokens and dice.random() < 0.5 else visit
        for visit in scenario.visits
    )
    return replace(scenario, slots=slots, visits=visits, positions=dice.choice([512, 512, 640, 768, 1024]))


class Places(Observer):
    """I22: a position of the arena has one owner; a step's rows lie in their slot's extent, which stays while it runs.

    Args:
        watch: with the manager and the model.
    """

    def __init__(self, watch: Watch) -> None:
        self._table = watch.manager.table
        self._positions = watch.model.positions
        self._violated = watch.violated
        self._step: StepBegins
        self._places: list[tuple[int, int]] = []  # origin and capacity of those who are in the step

    def step_begins(self, event: StepBegins) -> None:
        """Check where all lies, and what the step is to write."""
        self._step, self._places = event, [self._place(part) for part in event.parts]
        for part in event.parts:
            slot = self._table.slot(part.slot)
            end = part.start + len(part.token_ids)
            if end > slot.capacity or self._table.extents.is_relocating(slot):
                self._violated(f"I22: slot {slot.id}: rows up to {end} have {slot.capacity} positions")
        self._check_all()

    def step_ended(self, event: StepEnded) -> None:
        """Check that nobody was moved meanwhile."""
        self._check_stays()

    def step_raised(self, event: StepRaised) -> None:
        """Check that nobody was moved meanwhile."""
        self._check_stays()

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check where all lies, that what is moved goes where nobody's lies, and that nobody reads it meanwhile."""
        self._check_all()
        for piece in event.transfers:
            if isinstance(piece, Relocate):
                self._check_piece(piece)
            elif self._table.extents.is_relocating(self._table.slot(piece.slot)):
                self._violated(f"I22: slot {piece.slot} is being moved, and {type(piece).__name__} has to do with it")
            if isinstance(piece, Copy) and self._table.extents.is_relocating(self._table.slot(piece.source)):
                self._violated(f"I22: slot {piece.source} is being moved, and a prefix is copied from it")

    def _place(self, part: StepPart) -> tuple[int, int]:
        slot = self._table.slot(part.slot)
        return slot.origin, slot.capacity

    def _check_stays(self) -> None:
        if self._places != [self._place(part) for part in self._step.parts]:
            self._violated(f"I22: the extents of a step's slots have changed while it ran: {self._places}")

    def _check_all(self) -> None:
        """No two slots have one position, and whatever a slot holds lies in its own."""
        end, before = 0, None
        for slot in sorted((slot for slot in self._table.places if slot.capacity), key=lambda slot: slot.origin):
            if slot.origin < end:
                self._violated(f"I22: slots {before} and {slot.id} overlap")
            end, before = slot.origin + slot.capacity, slot.id
        for slot in self._table.places:
            if max(len(slot.tokens), slot.staged, slot.draft_length) > slot.capacity:
                self._violated(f"I22: slot {slot.id} has {len(slot.tokens)} tokens in {slot.capacity} positions")
        if end > self._positions:
            self._violated(f"I22: slot {before} ends at {end}, and the arena has {self._positions} positions")

    def _check_piece(self, piece: Relocate) -> None:
        if abs(piece.target - piece.source) < piece.rows:
            self._violated(f"I22: a piece of slot {piece.slot} is copied onto itself: {piece}")
        for slot in self._table.places:
            first, end = max(slot.origin, piece.target), min(slot.origin + slot.capacity, piece.target + piece.rows)
            if slot.id != piece.slot and first < end:
                self._violated(f"I22: slot {piece.slot} is moved to where slot {slot.id} lies")
