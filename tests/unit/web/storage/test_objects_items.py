"""The items of objects: a page is that of a plain list, and what is not asked for is not read."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from web.bodies.json_encoding import iter_json
from web.bodies.query import PageAsked
from web.storage.database import ObjectDatabase
from web.storage.objects import (
    LISTED_BYTES,
    Bounds,
    DuplicateItem,
    Item,
    ItemNotFound,
    ItemPage,
    Kind,
    NothingAfter,
    ObjectTooLarge,
    StoredObject,
    TooManyItems,
    encoded,
    page_json,
)

KIND = Kind.RESPONSE
LONG = 400_000


def now() -> float:
    return 5000.0


@pytest.fixture
def database() -> Iterator[ObjectDatabase]:
    made = ObjectDatabase(None, Bounds(10_000_000, 1e6), now, now)
    yield made
    made.close()


def item(id: str, size: int = 0) -> Item:
    return Item(id, json.dumps({"id": id, "text": "x" * size}).encode())


def thing(id: str, previous: str | None = None) -> StoredObject:
    return StoredObject(KIND, id, b"{}", created=1.0, previous=previous)


def ids(database: ObjectDatabase, id: str = "a", **asked: object) -> tuple[list[str], bool]:
    page = database.page(KIND, id, None, PageAsked(**{"limit": 100, "ascending": True, "after": None} | asked))  # type: ignore[arg-type]
    assert page is not None
    return [each.id for each in page.items], page.has_more


def test_items_are_added_behind_the_others_and_taken_away(database: ObjectDatabase) -> None:
    assert not database.append(KIND, "a", None, [item("1")], 3)
    database.put(thing("a"), [item("1")])
    empty = database.size - item("1").size
    assert database.append(KIND, "a", None, [item("2"), item("3")], 3)
    assert ids(database) == (["1", "2", "3"], False)
    assert database.item(KIND, "a", None, "2") == item("2")
    assert database.size == empty + sum(item(id).size for id in "123")
    assert database.remove(KIND, "a", None, "2") == thing("a")
    assert ids(database) == (["1", "3"], False)
    assert database.size == empty + sum(item(id).size for id in "13")
    assert database.append(KIND, "a", None, [item("2")], 3)
    assert ids(database) == (["1", "3", "2"], False)
    assert database.remove(KIND, "b", None, "2") is None
    assert database.item(KIND, "a", "bob", "2") is None
    assert database.page(KIND, "a", "bob", PageAsked(1, ascending=True, after=None)) is None
    assert database.delete(KIND, "a", None)
    assert database.size == 0


def test_what_cannot_be_added_or_found_changes_nothing(database: ObjectDatabase) -> None:
    database.put(thing("a"), [item("1"), item("2")])
    refused: list[tuple[type[Exception], Callable[[], object]]] = [
        (DuplicateItem, lambda: database.append(KIND, "a", None, [item("3"), item("2")], 9)),
        (DuplicateItem, lambda: database.append(KIND, "a", None, [item("3"), item("3")], 9)),
        (TooManyItems, lambda: database.append(KIND, "a", None, [item("3"), item("4")], 3)),
        (ObjectTooLarge, lambda: database.append(KIND, "a", None, [item("3", 10_000_000)], 9)),
        (ItemNotFound, lambda: database.remove(KIND, "a", None, "3")),
        (ItemNotFound, lambda: database.item(KIND, "a", None, "3")),
        (NothingAfter, lambda: ids(database, after="3")),
    ]
    size = database.size
    for error, change in refused:
        with pytest.raises(error):
            change()
        assert (ids(database), database.size) == ((["1", "2"], False), size)


def test_a_page_ends_where_it_is_long(database: ObjectDatabase) -> None:
    half = LISTED_BYTES // 2
    large = ObjectDatabase(None, Bounds(10 * LISTED_BYTES, 1e6), now, now)
    large.put(thing("a"), [item(str(number), half) for number in range(3)])
    assert ids(large) == (["0", "1"], True)
    assert ids(large, after="1") == (["2"], False)
    large.close()


@settings(max_examples=150, deadline=None)
@given(
    chain=st.lists(
        st.tuples(st.lists(st.sampled_from("abcdef"), max_size=5), st.lists(st.sampled_from("ghij"), max_size=3)),
        min_size=1,
        max_size=4,
    ),
    limit=st.integers(1, 6),
    ascending=st.booleans(),
    after=st.sampled_from(["", *"abcdefghij"]),
)
def test_a_page_is_that_of_a_plain_list(
    chain: list[tuple[list[str], list[str]]], limit: int, ascending: bool, after: str
) -> None:
    """Also where an id is in several responses: the first one that the page would come to counts."""
    database = ObjectDatabase(None, Bounds(10_000_000, 1e6), now, now)
    for number, (asked, made) in enumerate(chain):  # each continues the one before
        previous = f"r{number - 1}" if number else None
        database.put(thing(f"r{number}", previous), [item(id) for id in asked], [item(id) for id in made])
    whole = [id for asked, made in chain[:-1] for id in (*asked, *made)] + chain[-1][0]
    ordered = whole if ascending else whole[::-1]
    last = f"r{len(chain) - 1}"
    if after and after not in whole:
        with pytest.raises(NothingAfter):
            ids(database, last, limit=limit, ascending=ascending, after=after)
    else:
        start = ordered.index(after) + 1 if after else 0
        wanted = ordered[start : start + limit], start + limit < len(ordered)
        assert ids(database, last, limit=limit, ascending=ascending, after=after or None) == wanted
    database.close()


def test_one_item_of_many_is_all_that_is_read_and_written(tmp_path: Path) -> None:
    """Beside one item of 0.4 MB, never two, whatever is asked of a conversation of 100."""
    database = ObjectDatabase(tmp_path, Bounds(100_000_000, 1e6), now, now)
    database.put(thing("a"), [item(str(number), LONG) for number in range(100)])
    added = [item("new", LONG)]
    asked: list[Callable[[], object]] = [
        lambda: ids(database, limit=1),
        lambda: ids(database, limit=1, ascending=False, after="50"),
        lambda: database.item(KIND, "a", None, "50"),
        lambda: database.before(KIND, "a", None, 100, 1),
        lambda: database.append(KIND, "a", None, added, 1000),
        lambda: database.remove(KIND, "a", None, "50"),
        lambda: database.get(KIND, "a", None),
        lambda: database.annotate(KIND, "a", None, {"k": "v"}),
        lambda: database.delete(KIND, "a", None),
    ]
    tracemalloc.start()
    try:
        for each in asked:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            each()
            assert tracemalloc.get_traced_memory()[1] - before < 2 * LONG
    finally:
        tracemalloc.stop()
        database.close()


def test_what_was_deleted_is_nowhere_in_the_file(tmp_path: Path) -> None:
    database = ObjectDatabase(tmp_path, Bounds(100_000_000, 1e6), now, now)
    database.put(thing("a"), [Item(str(number), b"secret" * 100_000) for number in range(5)])
    assert database.delete(KIND, "a", None)
    database.close()
    assert not any(b"secret" * 1000 in path.read_bytes() for path in tmp_path.iterdir())


async def test_items_are_shown_as_they_were_encoded() -> None:
    values: list[dict[str, Any]] = [{"id": "1", "text": "ö\n"}, {"id": "2", "n": [1, 2.5, None]}]
    page = json.loads(b"".join(iter_json(page_json(ItemPage(await encoded(values), has_more=True)))))
    assert page == {"object": "list", "data": values, "first_id": "1", "last_id": "2", "has_more": True}
