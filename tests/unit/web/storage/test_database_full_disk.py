"""A disk that takes nothing: what is stored can be read, and gone on from, and deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.web.storage.disks import Disk, disk_of
from web.bodies.query import PageAsked
from web.storage import files
from web.storage.database import ObjectDatabase
from web.storage.files import RESERVE
from web.storage.objects import Bounds, Item, Kind, Listing, StoredObject

KIND = Kind.RESPONSE


class Clock:
    """Seconds, as a test sets them."""

    now = 5000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return disk_of(tmp_path, monkeypatch)


def open_in(folder: Path, clock: Clock | None = None) -> ObjectDatabase:
    return ObjectDatabase(folder, Bounds(1_000_000, 100.0), clock or Clock(), clock or Clock())


@pytest.fixture
def database(tmp_path: Path, disk: Disk) -> Iterator[ObjectDatabase]:
    made = open_in(tmp_path)
    for id, previous in (("a", None), ("b", "a")):
        made.put(thing(id, previous), [Item(f"{id} in", b"{}")], [Item(f"{id} out", b"{}")])
    yield made
    made.close()


def thing(id: str, previous: str | None = None) -> StoredObject:
    return StoredObject(KIND, id, b"{}", created=1.0, previous=previous)


def check_readable(database: ObjectDatabase) -> None:
    """See that everything that does not change anything is done."""
    assert database.get(KIND, "b", None) == thing("b", "a")
    assert [stored.id for stored in database.list(Listing(KIND, None, 10)).objects] == ["a", "b"]
    assert database.item(KIND, "b", None, "b out") == Item("b out", b"{}")
    page = database.page(KIND, "b", None, PageAsked(10, ascending=True, after="a in"))
    assert page is not None
    assert [item.id for item in page.items] == ["a out", "b in"]
    before = database.before(KIND, "b", None, 10, 1000)
    assert before is not None
    assert len(before.items) == 4


def test_what_is_stored_is_read_from_a_disk_that_takes_nothing(database: ObjectDatabase, disk: Disk) -> None:
    disk.takes = "nothing"
    check_readable(database)
    for change in (
        lambda: database.put(thing("c")),
        lambda: database.annotate(KIND, "a", None, {}),
        lambda: database.append(KIND, "a", None, [Item("c", b"{}")], 9),
        lambda: database.delete(KIND, "a", None),
    ):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            change()
        check_readable(database)
    disk.takes = "everything"
    assert database.put(thing("c"))


def test_what_is_deleted_on_a_full_disk_takes_the_reserve_for_as_long(
    database: ObjectDatabase, disk: Disk, tmp_path: Path
) -> None:
    disk.takes = "nothing beside the reserve"
    assert database.delete(KIND, "a", None)
    assert database.get(KIND, "a", None) is None
    assert (tmp_path / RESERVE).stat().st_size == files.RESERVE_BYTES
    with pytest.raises(sqlite3.OperationalError, match="full"):
        database.put(thing("c"))


def test_a_server_starts_on_a_full_disk(database: ObjectDatabase, disk: Disk, tmp_path: Path) -> None:
    database.close()
    disk.takes = "nothing"
    again = open_in(tmp_path)
    check_readable(again)
    disk.takes = "everything"
    again.close()


def test_a_use_that_was_noted_counts_though_it_is_not_written(tmp_path: Path, disk: Disk) -> None:
    clock = Clock()
    database = open_in(tmp_path, clock)
    for name in "ab":
        database.put(thing(name))
    disk.takes = "nothing"
    clock.now += 60
    assert database.get(KIND, "a", None) is not None
    clock.now += 60
    assert database.get(KIND, "a", None) is not None
    assert database.get(KIND, "b", None) is None
    disk.takes = "everything"
    database.put(thing("c"))  # which prunes
    assert [stored.id for stored in database.list(Listing(KIND, None, 10)).objects] == ["a", "c"]
    database.close()
