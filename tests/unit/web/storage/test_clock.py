"""The clock by which stored objects grow old, when the machine's clock is set, or nobody looked at it for long."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.storage.clock import StoreClock
from web.storage.database import ObjectDatabase
from web.storage.objects import Bounds, Kind, Listing, StoredObject

DAY = 86400.0
BOUNDS = Bounds(1_000_000, 30 * DAY)
NOON = 1.9e9


class Machine:
    """A machine's clocks."""

    def __init__(self) -> None:
        self.time = NOON
        self.ran = 0.0

    def wall(self) -> float:
        """Return what its clock shows."""
        return self.time

    def steady(self) -> float:
        """Return for how long it has run."""
        return self.ran

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds
        self.ran += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def open_on(machine: Machine, folder: Path) -> ObjectDatabase:
    return ObjectDatabase(folder, BOUNDS, machine.wall, machine.steady)


def thing(id: str) -> StoredObject:
    return StoredObject(Kind.RESPONSE, id, b"{}", created=1.0)


def ids(database: ObjectDatabase) -> list[str]:
    return [stored.id for stored in database.list(Listing(Kind.RESPONSE, None, 100)).objects]


@pytest.mark.parametrize("days", [60, -60, 100_000])
@pytest.mark.parametrize("restarts", [True, False])
def test_storing_while_the_clock_is_wrong_deletes_nothing(
    tmp_path: Path, machine: Machine, days: float, restarts: bool
) -> None:
    database = open_on(machine, tmp_path)
    database.put(thing("before"))

    def again(database: ObjectDatabase) -> ObjectDatabase:
        if not restarts:
            return database
        database.close()
        return open_on(machine, tmp_path)

    machine.time += days * DAY
    database = again(database)
    database.put(thing("meanwhile"))
    machine.run(3600)
    machine.time -= days * DAY
    database = again(database)
    database.put(thing("after"))
    assert ids(database) == ["before", "meanwhile", "after"]
    machine.run(25 * DAY)
    assert ids(database) == ["before", "meanwhile", "after"]
    machine.run(10 * DAY)
    assert ids(database) == [], "they have their time and no more"
    database.close()


def test_what_was_not_seen_to_pass_counts_a_day_each_time(tmp_path: Path, machine: Machine) -> None:
    """A server that runs an hour a day lets things grow as old as one that runs all the time."""
    database = open_on(machine, tmp_path)
    database.put(thing("a"))
    for day in range(1, 40):
        machine.time += DAY - 3600
        database.close()
        database = open_on(machine, tmp_path)
        machine.run(3600)
        assert ids(database) == (["a"] if day <= 30 else [])
    database.close()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e9, 1e9)), max_size=20))
def test_it_shows_what_passed_and_little_more_whatever_the_clock_is_set_to(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    clock = StoreClock(machine.wall, machine.steady, 100.0)
    shown, _ = clock.look()
    for passed, jump in steps:
        machine.run(passed)
        machine.time += jump
        before, (shown, _) = shown, clock.look()
        assert passed - 1e-3 <= shown - before <= passed + 100.0 + 1e-3
