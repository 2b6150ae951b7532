"""Database: what is kept, what makes room, and what a listing shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from web.bodies.query import PageAsked
from web.storage.database import ObjectDatabase
from web.storage.objects import OVERHEAD, Bounds, Item, Kind, Listing, NothingAfter, ObjectTooLarge, StoredObject

KIND = Kind.CHAT_COMPLETION
ROOMY = Bounds(size=1_000_000, age=1000.0)


class Clock:
    """Seconds since the epoch, as a test sets them."""

    now = 5000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(clock: Clock) -> Iterator[ObjectDatabase]:
    made = ObjectDatabase(None, ROOMY, clock, clock)
    yield made
    made.close()


def thing(id: str, body: bytes = b"{}", **fields: object) -> StoredObject:
    return replace(StoredObject(KIND, id, body, created=1.0), **fields)  # type: ignore[arg-type]


def ids(database: ObjectDatabase, **fields: object) -> list[str]:
    listing = replace(Listing(KIND, None, limit=100), **fields)  # type: ignore[arg-type]
    return [stored.id for stored in database.list(listing).objects]


def test_an_object_is_found_by_its_id_and_put_in_place_of_another(database: ObjectDatabase) -> None:
    stored = thing("a", b"1", previous="z", model="m", metadata={"k": "v"})
    assert database.put(stored)
    assert database.get(KIND, "a", None) == stored
    assert database.get(Kind.RESPONSE, "a", None) is None
    assert database.put(replace(stored, body=b"22"))
    assert database.get(KIND, "a", None) == replace(stored, body=b"22")
    assert database.size == replace(stored, body=b"22").size
    assert database.delete(KIND, "a", None)
    assert not database.delete(KIND, "a", None)
    assert database.size == 0


def test_an_owner_sees_its_own_alone(database: ObjectDatabase) -> None:
    for owner in (None, "alice", "bob"):
        database.put(thing(f"of {owner}", owner=owner))
    assert ids(database, owner="alice") == ["of alice"]
    assert ids(database) == ["of None"]
    assert database.get(KIND, "of alice", "bob") is None
    assert database.get(KIND, "of alice", None) is None
    assert not database.delete(KIND, "of alice", "bob")
    with pytest.raises(NothingAfter):
        ids(database, owner="bob", after="of alice")


def test_what_was_not_used_for_longest_makes_room(clock: Clock) -> None:
    database = ObjectDatabase(None, Bounds(3 * (100 + OVERHEAD), 1000.0), clock, clock)
    for name in "abc":
        clock.now += 1
        database.put(thing(name, bytes(100)))
    clock.now += 1
    assert database.get(KIND, "a", None) is not None
    database.put(thing("d", bytes(100)))
    assert ids(database) == ["a", "c", "d"]
    assert not database.put(thing("e", bytes(1000)))  # larger than all may be
    assert ids(database) == ["a", "c", "d"]
    database.close()


def test_what_is_live_makes_no_room(clock: Clock) -> None:
    database = ObjectDatabase(None, Bounds(2 * (100 + OVERHEAD), 10.0), clock, clock)
    database.put(thing("a", bytes(100), live=True))
    clock.now += 100
    for name in "bc":
        database.put(thing(name, bytes(100)))
    assert [stored.id for stored in database.live(KIND)] == ["a"]
    assert ids(database) == ["c"]
    database.close()


def test_what_is_too_old_is_not_there(database: ObjectDatabase, clock: Clock) -> None:
    database.put(thing("a"))
    clock.now += ROOMY.age - 1
    assert database.get(KIND, "a", None) is not None  # a use, from which its age counts
    clock.now += ROOMY.age - 1
    assert ids(database) == ["a"]
    clock.now += 2
    assert database.get(KIND, "a", None) is None
    assert ids(database) == []
    assert database.size > 0
    database.prune()
    assert database.size == 0


def items(*ids: str) -> list[Item]:
    return [Item(id, f'{{"id":"{id}"}}'.encode()) for id in ids]


def before(
    database: ObjectDatabase, id: str, most: int = 100, most_bytes: int = 10_000
) -> tuple[list[str], bool] | None:
    """The ids of what a new object goes on from, and whether there is more."""
    found = database.before(KIND, id, None, most, most_bytes)
    return None if found is None else ([item.id for item in found.items], found.has_more)


def test_what_is_gone_on_from_begins_with_the_first_and_has_no_gap(database: ObjectDatabase) -> None:
    for name, previous in (("a", None), ("b", "a"), ("c", "b")):
        database.put(thing(name, previous=previous), items(f"{name} in"), items(f"{name} out"))
    assert before(database, "c") == (["a in", "a out", "b in", "b out", "c in", "c out"], False)
    assert before(database, "c", most=3) == (["b out", "c in", "c out"], True)
    assert before(database, "c", most_bytes=15) == (["c in", "c out"], True)
    shown = database.page(KIND, "c", None, PageAsked(100, ascending=True, after="a out"))
    assert shown is not None
    assert [item.id for item in shown.items] == ["b in", "b out", "c in"]
    database.put(thing("b", live=True))
    assert before(database, "c") is None
    database.delete(KIND, "a", None)
    assert before(database, "c") is None
    assert before(database, "a") is None


def test_a_ring_is_gone_on_from_by_nothing(database: ObjectDatabase) -> None:
    database.put(thing("a", previous="a"), items("b"))
    assert before(database, "a") is None
    assert database.page(KIND, "a", None, PageAsked(2, ascending=True, after=None)) is not None


def test_a_listing_has_pages_and_filters(database: ObjectDatabase) -> None:
    for number, name in enumerate("abcdef"):
        database.put(thing(name, model="even" if number % 2 == 0 else "odd", metadata={"n": str(number), "x": '"'}))
    assert ids(database, limit=2) == ["a", "b"]
    assert ids(database, limit=2, after="b") == ["c", "d"]
    assert ids(database, ascending=False, limit=2, after="e") == ["d", "c"]
    assert ids(database, model="odd") == ["b", "d", "f"]
    assert ids(database, metadata={"n": "3", "x": '"'}) == ["d"]
    assert ids(database, metadata={"n": "3", "x": "y"}) == []
    with pytest.raises(NothingAfter):
        ids(database, after="z")


def test_a_page_says_whether_others_follow_and_ends_where_it_is_long(database: ObjectDatabase) -> None:
    for name in "abcd":
        database.put(thing(name, bytes(100)))

    def page(**fields: object) -> tuple[list[str], bool]:
        found = database.list(replace(Listing(KIND, None, limit=100), **fields))  # type: ignore[arg-type]
        return [stored.id for stored in found.objects], found.has_more

    assert page() == (["a", "b", "c", "d"], False)
    assert page(limit=4) == (["a", "b", "c", "d"], False)
    assert page(limit=3) == (["a", "b", "c"], True)
    assert page(most_bytes=101) == (["a", "b"], True)
    assert page(most_bytes=1) == (["a"], True)
    assert page(most_bytes=1, after="c") == (["d"], False)


def test_a_listing_is_no_use(database: ObjectDatabase, clock: Clock) -> None:
    database.put(thing("a"))
    clock.now += ROOMY.age
    assert ids(database) == ["a"]
    clock.now += 1
    assert ids(database) == []


def test_other_metadata_takes_the_place_of_what_there_was(database: ObjectDatabase) -> None:
    database.put(thing("a", b"1", owner="alice", model="m", metadata={"k": "old"}))
    assert database.annotate(KIND, "a", "bob", {}) is None
    assert database.annotate(KIND, "b", "alice", {}) is None
    changed = thing("a", b"1", owner="alice", model="m", metadata={"k": "v"})
    assert database.annotate(KIND, "a", "alice", {"k": "v"}) == changed
    assert database.get(KIND, "a", "alice") == changed
    assert database.size == changed.size
    with pytest.raises(ObjectTooLarge):
        database.annotate(KIND, "a", "alice", {"k": "v" * ROOMY.size})
    assert database.get(KIND, "a", "alice") == changed


def test_a_change_is_a_use(clock: Clock) -> None:
    database = ObjectDatabase(None, Bounds(2 * (100 + OVERHEAD), 1000.0), clock, clock)
    for name in "ab":
        database.put(thing(name, bytes(100)))
        clock.now += 1
    database.annotate(KIND, "a", None, {})
    database.put(thing("c", bytes(100)))
    assert ids(database) == ["a", "c"]
    database.close()


def test_one_that_was_live_ends_with_the_items_that_it_had(database: ObjectDatabase) -> None:
    database.put(thing("a", b"begun", live=True), items("in"))
    size = database.size
    database.end(thing("a", b"has ended"))
    assert not database.live(KIND)
    assert database.get(KIND, "a", None) == thing("a", b"has ended")
    assert database.size == size + len(b"has ended") - len(b"begun")
    assert before(database, "a") == (["in"], False)


def test_what_finds_no_room_beside_what_is_live_is_said_not_to_be_kept(clock: Clock) -> None:
    database = ObjectDatabase(None, Bounds(2 * (100 + OVERHEAD), 1000.0), clock, clock)
    for name in "ab":
        assert database.put(thing(name, bytes(100), live=True))
    assert not database.put(thing("c", bytes(100)))
    assert database.get(KIND, "c", None) is None
    database.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400), st.booleans()), max_size=30))
def test_the_bound_holds_after_each_change(changes: list[tuple[str, int, bool]]) -> None:
    clock, bounds = Clock(), Bounds(1500, 50.0)
    database = ObjectDatabase(None, bounds, clock, clock)
    for name, size, deletes in changes:
        clock.now += size / 10
        if deletes:
            database.delete(KIND, name, None)
        else:
            assert database.put(thing(name, bytes(size)))
        kept = [database.get(KIND, found, None) for found in ids(database)]
        assert sum(stored.size for stored in kept if stored) <= bounds.size
        assert database.size <= bounds.size
    database.close()
