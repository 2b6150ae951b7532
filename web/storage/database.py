"""Stored objects in SQLite.

Every change is one transaction, so a process that is killed at any time leaves whole objects.  What is kept is bounded
by bytes and by age: whenever an object is added, those that were not used for longest make room.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from web.storage.files import StateFolderError, UnknownVersion, connect, damage, is_damage, make_folder, set_aside
from web.storage.objects import Found, Kind, ObjectTooLarge, StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from web.storage.objects import Bounds, Listing

VERSION = 1
"""Of the schema, in the file's `user_version`."""

SCHEMA = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of their making
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT,
    previous TEXT,
    model TEXT NOT NULL,
    metadata TEXT NOT NULL,  -- JSON
    created REAL NOT NULL,   -- seconds since the epoch
    used REAL NOT NULL,      -- the same
    live INTEGER NOT NULL,
    size INTEGER NOT NULL,   -- bytes
    body BLOB NOT NULL,
    UNIQUE (kind, id)
);
CREATE INDEX objects_by_use ON objects (live, used);
CREATE TABLE total (size INTEGER NOT NULL);  -- of all objects, kept by these triggers
INSERT INTO total VALUES (0);
CREATE TRIGGER object_added AFTER INSERT ON objects
    BEGIN UPDATE total SET size = size + new.size; END;
CREATE TRIGGER object_changed AFTER UPDATE OF size ON objects
    BEGIN UPDATE total SET size = size + new.size - old.size; END;
CREATE TRIGGER object_removed AFTER DELETE ON objects
    BEGIN UPDATE total SET size = size - old.size; END;
"""
COLUMNS = "kind, id, body, created, owner, previous, model, metadata, live"
PRUNED_AT_A_TIME = 64
MAX_CHAIN = 1024
"""Objects that may continue one another."""


class ObjectDatabase:
    """Objects under their ids, for one thread at a time.

    Args:
        folder: where the file is; None to keep everything in memory.
        bounds: of what is kept.
        now: seconds since the epoch.

    Raises:
        StateFolderError: the folder cannot be used.
    """

    def __init__(self, folder: Path | None, bounds: Bounds, now: Callable[[], float]) -> None:
        self._folder = folder
        self._bounds = bounds
        self._now = now
        if folder is not None:
            make_folder(folder)
        self._connection = self._open()
        self.prune()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # --- one object -----------------------------------------------------------------------------------------------

    def put(self, stored: StoredObject) -> bool:
        """Add an object, or put it in place of the one with its id; tell whether it is small enough to be kept."""
        if stored.size > self._bounds.size:
            self.delete(stored.kind, stored.id, stored.owner)
            return False
        with self._transaction():
            self._write(stored)
            self._prune()
            return self._number(stored.kind, stored.id, stored.owner) is not None  # others may be live, and take all

    def change(
        self, kind: Kind, id: str, owner: str | None, change: Callable[[StoredObject], StoredObject]
    ) -> StoredObject | None:
        """Put what `change` makes of an object in its place, and return that: nothing comes between.

        Args:
            kind: of the object.
            id: of the object.
            owner: whose it is.
            change: gives back the object with another body or other metadata; what it raises leaves all as it was.

        Returns:
            None if there is none of that id, or it is not that owner's.

        Raises:
            ObjectTooLarge: it would be; it is left as it was.
        """
        with self._transaction():
            found = self._find(kind, id, owner)
            if found is None:
                return None
            changed = change(found)
            if changed.size > self._bounds.size:
                raise ObjectTooLarge
            self._write(changed)
            self._prune()
        return changed

    def get(self, kind: Kind, id: str, owner: str | None) -> StoredObject | None:
        """Return an object, and note its use; None if there is none of that id, or it is not that owner's."""
        found = self._find(kind, id, owner)
        if found is not None:
            self._connection.execute("UPDATE objects SET used = ? WHERE kind = ? AND id = ?", (self._now(), kind, id))
        return found

    def chain(self, kind: Kind, id: str, owner: str | None) -> list[StoredObject] | None:
        """Return an object behind all those that it continues, the first first.

        Returns:
            None if one of them is not there, or there are more than `MAX_CHAIN`.
        """
        chain: list[StoredObject] = []
        next_id: str | None = id
        with self._transaction():  # one for all the uses that are noted
            while next_id is not None:
                found = self.get(kind, next_id, owner)
                if found is None or len(chain) == MAX_CHAIN:
                    return None
                chain.append(found)
                next_id = found.previous
        return chain[::-1]

    def delete(self, kind: Kind, id: str, owner: str | None) -> bool:
        """Delete an object; tell whether it was there."""
        with self._transaction():
            gone = self._connection.execute(
                "DELETE FROM objects WHERE kind = ? AND id = ? AND owner IS ?", (kind, id, owner)
            ).rowcount
        return gone > 0

    # --- several --------------------------------------------------------------------------------------------------

    def list(self, listing: Listing) -> Found | None:
        """Return objects by the time of their making; None if there is no object `after`.  This is no use of them."""
        order, beyond = ("ASC", ">") if listing.ascending else ("DESC", "<")
        conditions = ["kind = ?", "owner IS ?", "NOT live", "used >= ?"]
        values: list[object] = [listing.kind, listing.owner, self._now() - self._bounds.age]
        if listing.after is not None:
            number = self._number(listing.kind, listing.after, listing.owner)
            if number is None:
                return None
            conditions.append(f"number {beyond} ?")
            values.append(number)
        if listing.model is not None:
            conditions.append("model = ?")
            values.append(listing.model)
        for name, value in listing.metadata.items():
            conditions.append("EXISTS (SELECT 1 FROM json_each(objects.metadata) WHERE key = ? AND value = ?)")
            values += [name, value]
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM objects WHERE {' AND '.join(conditions)} ORDER BY number {order} LIMIT ?",
            (*values, listing.limit + 1),
        )
        objects: list[StoredObject] = []
        size = 0
        for row in rows:
            if len(objects) == listing.limit or size >= listing.most_bytes:
                return Found(objects, has_more=True)
            objects.append(_stored(row))
            size += len(objects[-1].body)
        return Found(objects, has_more=False)

    def live(self, kind: Kind) -> Sequence[StoredObject]:
        """Return the objects that were being made when the file was left."""
        rows = self._connection.execute(f"SELECT {COLUMNS} FROM objects WHERE kind = ? AND live", (kind,))
        return [_stored(row) for row in rows]

    @property
    def size(self) -> int:
        """Bytes of all objects, as their bound counts them."""
        total: int = self._connection.execute("SELECT size FROM total").fetchone()[0]
        return total

    def prune(self) -> None:
        """Delete what was not used for too long, and then, while there is too much, what was not used for longest."""
        with self._transaction():
            self._prune()

    def recover(self) -> None:
        """Set a file aside that was found to be damaged, and begin a new one."""
        self._connection.close()
        if self._folder is not None:
            set_aside(self._folder)
        self._connection = self._open()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _find(self, kind: Kind, id: str, owner: str | None) -> StoredObject | None:
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM objects WHERE kind = ? AND id = ? AND owner IS ? AND (live OR used >= ?)",
            (kind, id, owner, self._now() - self._bounds.age),
        ).fetchone()
        return None if found is None else _stored(found)

    def _write(self, stored: StoredObject) -> None:
        """Add an object, or put it in place of the one with its id, as used now."""
        row = (
            *(stored.kind, stored.id, stored.body, stored.created, stored.owner, stored.previous, stored.model),
            *(json.dumps(dict(stored.metadata)), stored.live, self._now(), stored.size),
        )
        self._connection.execute(
            f"INSERT INTO objects ({COLUMNS}, used, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, metadata = excluded.metadata, "
            "live = excluded.live, used = excluded.used, size = excluded.size",
            row,
        )

    def _prune(self) -> None:
        self._connection.execute("DELETE FROM objects WHERE NOT live AND used < ?", (self._now() - self._bounds.age,))
        excess = self.size - self._bounds.size
        while excess > 0:
            rows = self._connection.execute(
                "SELECT number, size FROM objects WHERE NOT live ORDER BY used, number LIMIT ?", (PRUNED_AT_A_TIME,)
            ).fetchall()
            for number, size in rows:
                if excess > 0:
                    self._connection.execute("DELETE FROM objects WHERE number = ?", (number,))
                    excess -= size
            if not rows:
                break

    def _number(self, kind: Kind, id: str, owner: str | None) -> int | None:
        found = self._connection.execute(
            "SELECT number FROM objects WHERE kind = ? AND id = ? AND owner IS ?", (kind, id, owner)
        ).fetchone()
        return None if found is None else found[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # some errors have rolled it back
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        if self._folder is None:
            return _with_schema(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        try:
            return _with_schema(connect(self._folder))
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise StateFolderError(f"--state-dir: {error}; does another server use it?") from error
        except UnknownVersion as error:
            raise StateFolderError(f"--state-dir: {error}") from error
        set_aside(self._folder)
        return _with_schema(connect(self._folder))


def _with_schema(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection whose tables are there.

    Raises:
        UnknownVersion: a later cede has made them.
    """
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise UnknownVersion(f"a later version of cede has written this folder (schema {version})")
        if version == 0:
            connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _stored(row: tuple[str, str, bytes, float, str | None, str | None, str, str, int]) -> StoredObject:
    kind, id, body, created, owner, previous, model, metadata, live = row
    try:
        return StoredObject(Kind(kind), id, body, created, owner, previous, model, json.loads(metadata), bool(live))
    except ValueError as error:  # what is no JSON, or of no kind that there is, was not written by us
        raise damage(f"the row of {id!r}: {error}") from error
