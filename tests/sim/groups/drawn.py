"""Related requests among those who come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from actors.control import Control

if TYPE_CHECKING:
    import random

    from tests.sim.scenario import Scenario, Visit

GROUPS = ("agent", "agent/search", "agent/search/1", "other")


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """Somebody ends a group, at a time."""

    at: float
    owner: str | None
    name: str


def with_groups(scenario: Scenario, dice: random.Random) -> Scenario:
    """The same with related requests among most who come, more of whom stay; groups are ended now and then."""
    visits = tuple(_related(visit, number, dice) for number, visit in enumerate(scenario.visits))
    ends = tuple(
        GroupEnd(dice.randint(1, 150) / 1000, dice.choice(scenario.owners), dice.choice(GROUPS))
        for _ in range(dice.choice([0, 1, 1, 2]))
    )
    return replace(scenario, visits=visits, group_ends=ends)


def _related(visit: Visit, number: int, dice: random.Random) -> Visit:
    control = Control(
        group=dice.choice(GROUPS) if dice.random() < 0.6 else None,
        supersede=dice.choice(["line", "word"]) if dice.random() < 0.35 else None,
        after=f"r{dice.randrange(number)}" if number and dice.random() < 0.2 else None,
    )
    if control.group is not None and dice.random() < 0.5:
        control = replace(control, first_wins=True)
    stays = dice.random() < 0.5
    return replace(
        visit,
        control=control,
        arrives=visit.arrives / dice.choice([1, 2, 8]),
        generations=visit.generations if dice.random() < 0.3 else 1,
        hang_up_after=None if stays else visit.hang_up_after,
        hang_up_at=None if stays else visit.hang_up_at,
        deleted_at=None if stays else visit.deleted_at,
    )
