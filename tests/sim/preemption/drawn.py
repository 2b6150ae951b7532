"""Scenarios in which the important take the slots of the unimportant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random

    from tests.sim.scenario import Scenario, Visit


class Drawing(Protocol):
    """Draws a client."""

    def __call__(self, dice: random.Random, *, long: bool) -> Visit:
        """Return one that is like others."""


def with_preemption(scenario: Scenario, draw: Drawing, dice: random.Random) -> Scenario:
    """Return the same, in more than half of all with long answers of the unimportant, whose slots others take."""
    if dice.random() >= 0.55:  # of which three in five come to it
        return scenario
    numbers = dice.choice([(0, 1), (-10, 0, 10), (-1, 0, 1, 2)])
    visits = tuple(_in_the_way(visit, dice.choice(numbers), min(numbers), dice) for visit in scenario.visits)
    more = tuple(_in_the_way(draw(dice, long=True), dice.choice(numbers), min(numbers), dice) for _ in range(4))
    return replace(
        scenario,
        preemption="on",
        slots=dice.choice([1, 1, 2, 3]),
        queue=20,
        queue_timeout=None,
        ram=scenario.ram if dice.random() < 0.2 else 100,
        ageing=dice.choice([0.002, 0.02, 3.0]),
        visits=(*visits, *more),
    )


def _in_the_way(visit: Visit, priority: int, best: int, dice: random.Random) -> Visit:
    if priority == best:
        return replace(visit, priority=priority, arrives=visit.arrives + dice.choice([0.0, 0.03, 0.3]))
    return replace(visit, priority=priority, max_tokens=max(visit.max_tokens, dice.choice([5, 30, 80])))
