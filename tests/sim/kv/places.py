"""Pages of KV in the simulation: scenarios in which there are few, and I22, that no shared page is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.core.observer import Observer
from runtime.kv.pages import PAGE_TOKENS
from runtime.step.transfer import Copy, CopyPage, Load

if TYPE_CHECKING:
    import random

    from actors.core.events import StepBegins, StepEnded, StepRaised, TransferBegins
    from runtime.kv.pages import PageTable
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
    """I22: a page that several sequences have is written by none; a step's rows lie in pages of their slot, which stay.

    Args:
        watch: with the manager and the model.
    """

    def __init__(self, watch: Watch) -> None:
        self._table = watch.manager.table
        self._violated = watch.violated
        self._step: StepBegins
        self._pages: list[PageTable] = []  # of those who are in the step

    def step_begins(self, event: StepBegins) -> None:
        """Check where all lies, and what the step is to write."""
        self._step, self._pages = event, [self._table.slot(part.slot).pages for part in event.parts]
        for part in event.parts:
            if not event.drafting:  # a drafter writes what is there already, where others' has read it
                self._check_written(part.slot, part.start, part.start + len(part.token_ids))
        self._check_all()

    def step_ended(self, event: StepEnded) -> None:
        """Check that all lies where it did."""
        self._check_stays()

    def step_raised(self, event: StepRaised) -> None:
        """Check that all lies where it did."""
        self._check_stays()

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check where all lies, and what is to be written."""
        self._check_all()
        for one in event.transfers:
            match one:
                case Copy(slot=slot, start=start, end=end):
                    self._check_written(slot, start, end)
                case Load(slot=slot, start=start, data=data):
                    self._check_written(slot, start, start + data.shape[-2])
                case CopyPage(target=target):
                    if any(target in place.pages.pages for place in self._table.places):
                        self._violated(f"I22: page {target} is copied to, and a sequence has it")

    def _check_written(self, slot: int, start: int, end: int) -> None:
        pages = self._table.slot(slot).pages
        if end > pages.capacity:
            self._violated(f"I22: slot {slot}: rows up to {end} have {pages.capacity} positions")
            return
        for page in {pages.place(position) // PAGE_TOKENS for position in range(start, end)}:
            if sum(page in place.pages.pages for place in self._table.places) != 1:
                self._violated(f"I22: slot {slot} writes to page {page}, which others have")

    def _check_stays(self) -> None:
        if self._pages != [self._table.slot(part.slot).pages for part in self._step.parts]:
            self._violated("I22: the pages of a step's slots have changed while it ran")

    def _check_all(self) -> None:
        """All that a slot holds lies in its pages."""
        for slot in self._table.places:
            if max(len(slot.tokens), slot.staged, slot.draft_length) > slot.capacity:
                self._violated(f"I22: slot {slot.id} has {len(slot.tokens)} tokens in {slot.capacity} positions")
