"""Warm requests among those who come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from tests.sim.scenario import Scenario, Visit


def with_warm(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same, in a third of all scenarios, with warm requests of half of those who come, who then ask in earnest.

    They come at longer intervals, so that the machine is idle now and then.
    """
    if dice.random() >= 1 / 3:
        return scenario
    pace = dice.choice([1, 3, 10])
    visits = [replace(visit, arrives=visit.arrives * pace) for visit in scenario.visits]
    return replace(scenario, visits=tuple(_warm(v) if dice.random() < 0.5 else v for v in visits))


def in_earnest(visit: Visit) -> Visit:
    """Return what the client of a visit asks when it comes again: if it was warm, for an answer."""
    if not visit.control.warm:
        return visit
    return replace(visit, control=replace(visit.control, warm=False), max_tokens=5)


def _warm(visit: Visit) -> Visit:
    return replace(visit, control=replace(visit.control, warm=True, after=None), max_tokens=0)
