"""The rows of objects, without their items: found, written, listed, and deleted to make room."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from web.storage.files import damage
from web.storage.objects import Found, Item, Kind, NothingAfter, ObjectTooLarge, StoredObject
from web.storage.parts import Part, delete_body, delete_parts, insert_parts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from web.storage.objects import Bounds, Listing

BODY = "coalesce((SELECT body FROM parts WHERE object = objects.number AND part = 0), x'')"
COLUMNS = f"kind, id, {BODY}, created, owner, previous, model, metadata, live"
USED_SINCE = "(used >= :since OR number IN (SELECT number FROM uses WHERE used >= :since))"
FOUND = f"kind = :kind AND id = :id AND owner IS :owner AND (live OR {USED_SINCE})"
PRUNED_AT_A_TIME = 64
MAX_CHAIN = 1024
"""Objects that may continue one another."""


class ObjectRows:
    """The rows of objects.  Whoever changes them has begun a transaction.

    Args:
        connection: to the database.
        bounds: of what is kept.
        now: seconds of the store's clock.
    """

    def __init__(self, connection: sqlite3.Connection, bounds: Bounds, now: Callable[[], float]) -> None:
        self._connection = connection
        self._bounds = bounds
        self._now = now

    def find(self, kind: Kind, id: str, owner: str | None) -> tuple[int, StoredObject] | None:
        """Return an object and its number, and note its use."""
        number = self.used(kind, id, owner)
        if number is None:
            return None
        return number, _stored(
            self._connection.execute(f"SELECT {COLUMNS} FROM objects WHERE number = ?", (number,)).fetchone()
        )

    def used(self, kind: Kind, id: str, owner: str | None) -> int | None:
        """Return the number of an object, and note its use."""
        chain, _ = self.chain(kind, id, owner, most=1)
        return chain[0][0] if chain else None

    def chain(
        self, kind: Kind, id: str, owner: str | None, most: int = MAX_CHAIN
    ) -> tuple[list[tuple[int, bool]], bool]:
        """Return an object behind those that it continues, as far as they are there, and note their use.

        Returns:
            Their numbers, and whether they are live, the first first; and whether that is all of them.
        """
        chain: list[tuple[int, bool]] = []
        next_id: str | None = id
        now = self._now()
        values = {"kind": kind, "owner": owner, "since": now - self._bounds.age}
        while next_id is not None and len(chain) < most:
            found = self._connection.execute(
                f"SELECT number, live, previous FROM objects WHERE {FOUND}", values | {"id": next_id}
            ).fetchone()
            if found is None:
                break
            number, live, next_id = found
            self._connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (number, now))
            chain.append((number, bool(live)))
        return chain[::-1], next_id is None

    def write(self, stored: StoredObject, size: int, given: Sequence[Item], made: Sequence[Item]) -> None:
        """Add an object, or put it in place of the one with its id, as used now."""
        row = (
            stored.kind,
            stored.id,
            stored.created,
            stored.owner,
            stored.previous,
            stored.model,
            json.dumps(dict(stored.metadata)),
            stored.live,
            self._now(),
            size,
        )
        self._connection.execute(
            "INSERT INTO objects (kind, id, created, owner, previous, model, metadata, live, used, size) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (kind, id) DO UPDATE SET metadata = excluded.metadata, "
            "live = excluded.live, used = excluded.used, size = excluded.size",
            row,
        )
        (number,) = self._connection.execute(
            "SELECT number FROM objects WHERE kind = ? AND id = ?", (stored.kind, stored.id)
        ).fetchone()
        delete_parts(self._connection, number)
        body = [Item("", stored.body)] if stored.body else []
        for part, items in ((Part.BODY, body), (Part.GIVEN, given), (Part.MADE, made)):
            insert_parts(self._connection, number, part, items)

    def end(self, stored: StoredObject) -> None:
        """Put another body in place of a live object's, which is live no longer; its items stay."""
        number = self.number(stored.kind, stored.id, stored.owner)
        if number is not None:
            grown = len(stored.body) - delete_body(self._connection, number)
            insert_parts(self._connection, number, Part.BODY, [Item("", stored.body)])
            values = (self._now(), grown, number)
            self._connection.execute("UPDATE objects SET live = 0, used = ?, size = size + ? WHERE number = ?", values)
            self.prune()

    def annotate(self, number: int, stored: StoredObject, metadata: Mapping[str, str]) -> StoredObject:
        """Put other metadata in place of an object's, and return it.

        Raises:
            ObjectTooLarge: it would be.
        """
        changed = replace(stored, metadata=metadata)
        values = (json.dumps(dict(metadata)), number)
        self._connection.execute("UPDATE objects SET metadata = ? WHERE number = ?", values)
        self.grow(number, changed.size - stored.size)
        return changed

    def delete(self, kind: Kind, id: str, owner: str | None) -> bool:
        """Delete an object; tell whether it was there."""
        query = "DELETE FROM objects WHERE kind = ? AND id = ? AND owner IS ?"
        return self._connection.execute(query, (kind, id, owner)).rowcount > 0

    def grow(self, number: int, size: int) -> None:
        """Let an object count so many bytes more, and make room for them.

        Raises:
            ObjectTooLarge: that is more than may be.
        """
        values = (size, self._now(), number)
        self._connection.execute("UPDATE objects SET size = size + ?, used = ? WHERE number = ?", values)
        (grown,) = self._connection.execute("SELECT size FROM objects WHERE number = ?", (number,)).fetchone()
        if grown > self._bounds.size:
            raise ObjectTooLarge
        self.prune()

    def list(self, listing: Listing) -> Found:
        """Return objects by the time of their making.  This is no use of them.

        Raises:
            NothingAfter: there is no object `listing.after`.
        """
        order, beyond = ("ASC", ">") if listing.ascending else ("DESC", "<")
        conditions = ["kind = :kind", "owner IS :owner", "NOT live", USED_SINCE]
        values: dict[str, object] = {"kind": listing.kind, "owner": listing.owner, "since": self._oldest()}
        if listing.after is not None:
            values["after"] = self.number(listing.kind, listing.after, listing.owner)
            if values["after"] is None:
                raise NothingAfter
            conditions.append(f"number {beyond} :after")
        if listing.model is not None:
            conditions.append("model = :model")
            values["model"] = listing.model
        for place, (name, value) in enumerate(listing.metadata.items()):
            entry = f"key = :name{place} AND value = :value{place}"
            conditions.append(f"EXISTS (SELECT 1 FROM json_each(objects.metadata) WHERE {entry})")
            values |= {f"name{place}": name, f"value{place}": value}
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM objects WHERE {' AND '.join(conditions)} ORDER BY number {order} LIMIT :limit",
            values | {"limit": listing.limit + 1},
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
        self._connection.execute("DELETE FROM objects WHERE NOT live AND used < ?", (self._oldest(),))
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

    def number(self, kind: Kind, id: str, owner: str | None) -> int | None:
        """Return the number of an object, however old; None if there is none of that id, or it is not that owner's."""
        found = self._connection.execute(
            "SELECT number FROM objects WHERE kind = ? AND id = ? AND owner IS ?", (kind, id, owner)
        ).fetchone()
        return None if found is None else found[0]

    def _oldest(self) -> float:
        """Return since when an object has to have been used to be there."""
        return self._now() - self._bounds.age


def _stored(row: tuple[str, str, bytes, float, str | None, str | None, str, str, int]) -> StoredObject:
    kind, id, body, created, owner, previous, model, metadata, live = row
    try:
        return StoredObject(Kind(kind), id, body, created, owner, previous, model, json.loads(metadata), bool(live))
    except ValueError as error:  # what is no JSON, or of no kind that there is, was not written by us
        raise damage(f"the row of {id!r}: {error}") from error
