"""Parts of objects, in rows of their own: what is not asked for is neither read nor written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.units import MIB
from web.storage.objects import LISTED_BYTES, DuplicateItem, Item, ItemNotFound, ItemPage, NothingAfter, check_ids

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from web.bodies.query import PageAsked

SWEPT_BYTES = MIB
"""Bytes of a deleted object that one transaction overwrites, or a single part that is longer."""


class Part(enum.IntEnum):
    """Part that a row is of its object, in the order in which a list shows them."""

    BODY = 0
    GIVEN = 1  # an item that a client has given
    MADE = 2  # an item that answers them


@dataclass(frozen=True, slots=True)
class Span:
    """The items of one object that belong to a list.

    Attributes:
        object: its number.
        last: the last kind of items that belong to it.
    """

    object: int
    last: Part


def insert_parts(connection: sqlite3.Connection, object: int, part: Part, items: Iterable[Item]) -> int:
    """Add parts behind those that an object has, and return the bytes that they count."""
    size = 0
    for item in items:
        connection.execute(
            "INSERT INTO parts (object, part, id, body) VALUES (?, ?, ?, ?)", (object, part, item.id, item.body)
        )
        size += len(item.body) if part is Part.BODY else item.size
    return size


def delete_parts(connection: sqlite3.Connection, object: int) -> None:
    """Delete all parts of an object."""
    connection.execute("DELETE FROM parts WHERE object = ?", (object,))


def delete_body(connection: sqlite3.Connection, object: int) -> int:
    """Delete an object's body, and return the bytes that it counted."""
    where = "FROM parts WHERE object = ? AND part = ?"
    values = (object, Part.BODY)
    size: int = connection.execute(f"SELECT coalesce(sum(length(body)), 0) {where}", values).fetchone()[0]
    connection.execute(f"DELETE {where}", values)
    return size


def delete_item(connection: sqlite3.Connection, object: int, item_id: str) -> int:
    """Delete an item that was given, and return the bytes that it counted.

    Raises:
        ItemNotFound: there is none of that id.
    """
    found = connection.execute(
        "SELECT number, length(body) FROM parts WHERE object = ? AND id = ? AND part = ?", (object, item_id, Part.GIVEN)
    ).fetchone()
    if found is None:
        raise ItemNotFound(item_id)
    number: int = found[0]
    length: int = found[1]
    connection.execute("DELETE FROM parts WHERE number = ?", (number,))
    return length + Item(item_id, b"").size


def item_of(connection: sqlite3.Connection, object: int, item_id: str) -> Item:
    """Return an item of an object.

    Raises:
        ItemNotFound: there is none of that id.
    """
    found = connection.execute(
        "SELECT body FROM parts WHERE object = ? AND id = ? AND part > ? ORDER BY part, number LIMIT 1",
        (object, item_id, Part.BODY),
    ).fetchone()
    if found is None:
        raise ItemNotFound(item_id)
    return Item(item_id, found[0])


def count_items(connection: sqlite3.Connection, object: int) -> int:
    """Return how many items were given to an object."""
    count: int = connection.execute(
        "SELECT count(*) FROM parts WHERE object = ? AND part = ?", (object, Part.GIVEN)
    ).fetchone()[0]
    return count


def check_new(connection: sqlite3.Connection, object: int, items: Sequence[Item]) -> None:
    """Raise DuplicateItem if an id is there already, or is twice among `items`."""
    check_ids(item.id for item in items)
    query = "SELECT 1 FROM parts WHERE object = ? AND id = ? AND part > ?"
    for item in items:
        if connection.execute(query, (object, item.id, Part.BODY)).fetchone() is not None:
            raise DuplicateItem(item.id)


def page_of(
    connection: sqlite3.Connection, spans: Sequence[Span], asked: PageAsked, most_bytes: int = LISTED_BYTES
) -> ItemPage:
    """Return a page of a list.

    Args:
        connection: to the database.
        spans: all that is in the list, the oldest first.
        asked: which page.
        most_bytes: of the items; the one with which there are so many is the last.

    Raises:
        NothingAfter: the list has no item `asked.after`.
    """
    items: list[Item] = []
    size = 0
    for number in _numbers(connection, spans if asked.ascending else spans[::-1], asked):
        if len(items) == asked.limit or size >= most_bytes:
            return ItemPage(items, has_more=True)
        item = Item(*connection.execute("SELECT id, body FROM parts WHERE number = ?", (number,)).fetchone())
        items.append(item)
        size += len(item.body)
    return ItemPage(items, has_more=False)


def _numbers(connection: sqlite3.Connection, spans: Sequence[Span], asked: PageAsked) -> Iterator[int]:
    """Yield the numbers of a list's items from where a page begins, in its order, out of the index alone."""
    order, beyond = ("ASC", ">") if asked.ascending else ("DESC", "<")
    by_place = f"ORDER BY part {order}, number {order}"
    place = None
    if asked.after is not None:
        query = f"SELECT part, number FROM parts WHERE object = ? AND id = ? AND part BETWEEN 1 AND ? {by_place}"
        while place is None:
            if not spans:
                raise NothingAfter
            place = connection.execute(query, (spans[0].object, asked.after, spans[0].last)).fetchone()
            spans = spans if place else spans[1:]
    for span in spans:
        query, values = "SELECT number FROM parts WHERE object = ? AND part BETWEEN 1 AND ?", [span.object, span.last]
        if place is not None:
            query += f" AND (part, number) {beyond} (?, ?)"
            values += place
            place = None  # of the first object alone
        yield from (number for (number,) in connection.execute(f"{query} {by_place}", values))


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete some of what is left of objects that are gone, in one transaction; tell whether there may be more."""
    gone = connection.execute("SELECT object FROM gone LIMIT 1").fetchone()
    if gone is None:
        return False
    numbers: list[tuple[int]] = []
    size = 0
    for number, length in connection.execute("SELECT number, length(body) FROM parts WHERE object = ?", gone):
        if size >= SWEPT_BYTES:
            break
        numbers.append((number,))
        size += length
    else:
        connection.execute("DELETE FROM gone WHERE object = ?", gone)
    connection.executemany("DELETE FROM parts WHERE number = ?", numbers)
    return True
