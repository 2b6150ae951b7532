"""The tables of the database, and how those of an earlier cede become these."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from web.storage.files import UnknownVersion, damage
from web.storage.objects import OVERHEAD, Item, Kind, metadata_size
from web.storage.parts import Part, insert_parts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

logger = logging.getLogger("cede.web")

VERSION = 2
"""Of the schema, in the file's `user_version`.  In the first one an object's items were lines of JSON in its body."""

SCHEMA = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of their making; none is ever given again
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT,
    previous TEXT,
    model TEXT NOT NULL,
    metadata TEXT NOT NULL,  -- JSON
    created REAL NOT NULL,   -- seconds since the epoch
    used REAL NOT NULL,      -- seconds of the store's own clock
    live INTEGER NOT NULL,
    size INTEGER NOT NULL,   -- bytes, with its items
    UNIQUE (kind, id)
);
CREATE INDEX objects_by_use ON objects (live, used);
CREATE TABLE parts (
    number INTEGER PRIMARY KEY,  -- in the order of their making
    object INTEGER NOT NULL,
    part INTEGER NOT NULL,       -- see `Part`
    id TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX parts_by_place ON parts (object, part);
CREATE INDEX parts_by_id ON parts (object, id);
CREATE TABLE gone (object INTEGER PRIMARY KEY);  -- deleted objects whose parts are still there
CREATE TABLE clock (time REAL NOT NULL, wall REAL NOT NULL);  -- of the store, as last seen
CREATE TABLE total (size INTEGER NOT NULL);  -- of all objects, kept by these triggers
INSERT INTO total VALUES (0);
CREATE TRIGGER object_added AFTER INSERT ON objects
    BEGIN UPDATE total SET size = size + new.size; END;
CREATE TRIGGER object_changed AFTER UPDATE OF size ON objects
    BEGIN UPDATE total SET size = size + new.size - old.size; END;
CREATE TRIGGER object_removed AFTER DELETE ON objects
    BEGIN
        UPDATE total SET size = size - old.size;
        INSERT INTO gone VALUES (old.number);
    END;
"""
REPLACED = """
DROP TRIGGER object_added; DROP TRIGGER object_changed; DROP TRIGGER object_removed;
DROP INDEX objects_by_use;
DROP TABLE total;
ALTER TABLE objects RENAME TO old;
"""
"""Takes the first schema's names away."""

HEAD = "number, kind, id, owner, previous, model, metadata, created, used, live"
"""What both schemas have of an object."""

USES = "CREATE TEMP TABLE uses (number INTEGER PRIMARY KEY, used REAL NOT NULL)"
"""Uses of objects that are not written yet; in memory."""


def prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection whose tables are there; those of an earlier cede are rewritten, all or nothing.

    Raises:
        UnknownVersion: a later cede has made them.
        sqlite3.Error: they cannot be made, or what is in them was not written by cede.
    """
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise UnknownVersion(f"a later version of cede has written this folder (schema {version})")
        if version == 0:
            connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version == 1:
            _upgrade(connection)
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(USES)
    except BaseException:
        connection.close()  # which undoes what was begun
        raise
    return connection


def last_seen(connection: sqlite3.Connection) -> tuple[float, float] | None:
    """Return the time of the store's clock when it was last written, and that of the wall clock then."""
    seen: tuple[float, float] | None = connection.execute("SELECT time, wall FROM clock").fetchone()
    return seen


def write_uses(connection: sqlite3.Connection, seen: tuple[float, float]) -> None:
    """Write the uses that were noted, and what the clock shows; in the transaction of a change."""
    noted = "(SELECT used FROM uses WHERE uses.number = objects.number)"
    connection.execute(f"UPDATE objects SET used = {noted} WHERE number IN (SELECT number FROM uses)")
    connection.execute("DELETE FROM uses")
    connection.execute("DELETE FROM clock")
    connection.execute("INSERT INTO clock VALUES (?, ?)", seen)


def _upgrade(connection: sqlite3.Connection) -> None:
    """Make rows of the items of the first schema's objects, one object in memory at a time."""
    logger.info("stored objects: the file of an earlier version is rewritten")
    connection.executescript(f"BEGIN IMMEDIATE; {REPLACED} {SCHEMA}")  # which leaves the transaction open
    for number, kind, metadata, body in connection.execute("SELECT number, kind, metadata, body FROM old"):
        try:
            parts = _parts_of(kind, body)
            size = OVERHEAD + metadata_size(json.loads(metadata))
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # it was not written by us
            raise damage(f"the row {number}: {error}") from error
        size += sum(insert_parts(connection, number, part, items) for part, items in parts.items())
        connection.execute(
            f"INSERT INTO objects ({HEAD}, size) SELECT {HEAD}, ? FROM old WHERE number = ?", (size, number)
        )
    # How long the server was off nobody can say: the clock goes on from when something was last used.
    last_use = "SELECT max(used) AS time FROM objects"
    for statement in (
        "DROP TABLE old",
        f"INSERT INTO clock SELECT time, time FROM ({last_use}) WHERE time NOT NULL",
        f"PRAGMA user_version = {VERSION}",
        "COMMIT",
    ):
        connection.execute(statement)


def _parts_of(kind: str, body: bytes) -> dict[Part, Sequence[Item]]:
    """Return the parts of an object whose body is as in the first schema.

    Raises:
        ValueError: it is not.
    """
    lines = body.split(b"\n")
    if kind == Kind.RESPONSE and len(lines) == 1:  # as it was before that
        loaded = json.loads(body)
        texts = (loaded["response"], loaded["input"], loaded["response"]["output"])
        lines = [json.dumps(text, separators=(",", ":")).encode() for text in texts]
    match kind, lines:
        case Kind.CONVERSATION, [items]:
            return {Part.GIVEN: list(_items(items))}
        case Kind.CHAT_COMPLETION, [completion, messages]:
            return {Part.BODY: [Item("", completion)], Part.GIVEN: list(_items(messages))}
        case Kind.RESPONSE, [response, asked, output]:
            body_part = [Item("", response)]
            return {Part.BODY: body_part, Part.GIVEN: list(_items(asked)), Part.MADE: list(_items(output))}
    raise ValueError(f"a {kind} of {len(lines)} lines")


def _items(array: bytes) -> Iterator[Item]:
    """Yield the elements of an array of compact JSON, of which one at a time is parsed."""
    decoder, text, at = json.JSONDecoder(), array.decode("ascii"), 1
    while text[at : at + 1] not in ("]", ""):
        value, end = decoder.raw_decode(text, at)
        yield Item(value["id"], text[at:end].encode())
        at = end + (text[end : end + 1] == ",")
    if text[:1] != "[" or text[at:] != "]":
        raise ValueError("no array")
