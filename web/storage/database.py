"""Stored objects in SQLite.

Every change is one transaction, so a process that is killed at any time leaves whole objects.  What is kept is bounded
by bytes and by age: whenever an object is added, those that were not used for longest make room.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from runtime.common.log_text import literal
from web.bodies.query import PageAsked
from web.storage.clock import StoreClock
from web.storage.files import (
    StateFolderError,
    UnknownVersion,
    connect,
    is_damage,
    make_folder,
    make_reserve,
    reserve_given_up,
    set_aside,
    takes_nothing,
)
from web.storage.objects import Item, ItemPage, Kind, StoredObject, TooManyItems
from web.storage.parts import (
    Part,
    Span,
    check_new,
    count_items,
    delete_item,
    insert_parts,
    item_of,
    page_of,
    sweep,
)
from web.storage.rows import ObjectRows
from web.storage.schema import last_seen, prepare, write_uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from web.storage.objects import Bounds, Found, Listing

logger = logging.getLogger("cede.web")

T = TypeVar("T")

UNSEEN = 1 / 30
"""Part of the age of what is kept that counts, each time, of a time that the server did not see pass."""


class ObjectDatabase:
    """Objects under their ids, and their items, for one thread at a time.

    What was used is noted in memory, and written with the next change: reading needs no room on the disk.

    Args:
        folder: where the file is; None to keep everything in memory.
        bounds: of what is kept.
        wall: seconds since the epoch.
        steady: seconds, from anywhere on, that no setting of the clock changes.

    Raises:
        StateFolderError: the folder cannot be used.
    """

    def __init__(
        self, folder: Path | None, bounds: Bounds, wall: Callable[[], float], steady: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._bounds = bounds
        self._times = wall, steady
        if folder is not None:
            make_folder(folder)
        self._begin()
        if folder is not None:
            make_reserve(folder)
        try:
            self.prune()
        except sqlite3.Error as error:
            if not takes_nothing(error):
                raise
            logger.warning("stored objects: what is old stays until the disk has room: %s", literal(error))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # --- one object -----------------------------------------------------------------------------------------------

    def put(self, stored: StoredObject, given: Sequence[Item] = (), made: Sequence[Item] = ()) -> bool:
        """Add an object, or put it in place of the one with its id; tell whether it is small enough to be kept.

        Args:
            stored: the object.
            given: its items, of those that clients gave.
            made: those that answer them.
        """
        size = stored.size + sum(item.size for item in (*given, *made))
        if size > self._bounds.size:
            self.delete(stored.kind, stored.id, stored.owner)
            return False
        with self._transaction():
            self._rows.write(stored, size, given, made)
            self._rows.prune()
            return (
                self._rows.number(stored.kind, stored.id, stored.owner) is not None
            )  # others may be live, and take all

    def annotate(self, kind: Kind, id: str, owner: str | None, metadata: Mapping[str, str]) -> StoredObject | None:
        """Put other metadata in place of an object's, and return it; None as for `get`.

        Raises:
            ObjectTooLarge: it would be; it is left as it was.
        """
        with self._transaction():
            found = self._rows.find(kind, id, owner)
            return None if found is None else self._rows.annotate(*found, metadata)

    def end(self, stored: StoredObject) -> None:
        """Put another body in place of a live object's, which is live no longer; its items stay."""
        with self._transaction():
            self._rows.end(stored)

    def get(self, kind: Kind, id: str, owner: str | None) -> StoredObject | None:
        """Return an object, and note its use; None if there is none of that id, or it is not that owner's."""
        found = self._rows.find(kind, id, owner)
        return None if found is None else found[1]

    def delete(self, kind: Kind, id: str, owner: str | None) -> bool:
        """Delete an object; tell whether it was there.  A full disk has a reserve for that."""
        return self._with_reserve(lambda: self._delete(kind, id, owner))

    # --- items ----------------------------------------------------------------------------------------------------

    def append(self, kind: Kind, id: str, owner: str | None, items: Sequence[Item], most: int) -> bool:
        """Add items that were given behind those of an object, all or none; tell whether it is there.

        Raises:
            DuplicateItem: an id is there already.
            TooManyItems: there would be more than `most`.
            ObjectTooLarge: the object would be; it is left as it was.
        """
        with self._transaction():
            number = self._rows.used(kind, id, owner)
            if number is None:
                return False
            if count_items(self._connection, number) + len(items) > most:
                raise TooManyItems(most)
            check_new(self._connection, number, items)
            self._rows.grow(number, insert_parts(self._connection, number, Part.GIVEN, items))
        return True

    def remove(self, kind: Kind, id: str, owner: str | None, item_id: str) -> StoredObject | None:
        """Take an item away that was given, and return the object; None as for `get`.

        Raises:
            ItemNotFound: there is none of that id.
        """
        with self._transaction():
            found = self._rows.find(kind, id, owner)
            if found is None:
                return None
            self._rows.grow(found[0], -delete_item(self._connection, found[0], item_id))
        return found[1]

    def item(self, kind: Kind, id: str, owner: str | None, item_id: str) -> Item | None:
        """Return an item; None as for `get`.

        Raises:
            ItemNotFound: there is none of that id.
        """
        number = self._rows.used(kind, id, owner)
        return None if number is None else item_of(self._connection, number, item_id)

    def page(self, kind: Kind, id: str, owner: str | None, asked: PageAsked) -> ItemPage | None:
        """Return a page of the items that were given, behind all of what the object continues; None as for `get`.

        Raises:
            NothingAfter: there is no item `asked.after`.
        """
        chain, _ = self._rows.chain(kind, id, owner)
        return page_of(self._connection, _spans(chain, Part.GIVEN), asked) if chain else None

    def before(self, kind: Kind, id: str, owner: str | None, most: int, most_bytes: int) -> ItemPage | None:
        """Return what a new object goes on from: all items of one and of all that it continues, the oldest first.

        Args:
            kind: of the object.
            id: of the object.
            owner: whose it is.
            most: items; of more the newest.
            most_bytes: of them; the one with which there are so many is the last that is read, going back.

        Returns:
            None if one of the objects is not there or is live, or there are more than `MAX_CHAIN`.
        """
        chain, is_whole = self._rows.chain(kind, id, owner)
        if not is_whole or any(live for _, live in chain):
            return None
        newest = PageAsked(most, ascending=False, after=None)
        found = page_of(self._connection, _spans(chain, Part.MADE), newest, most_bytes)
        return ItemPage(found.items[::-1], found.has_more)

    # --- several --------------------------------------------------------------------------------------------------

    def list(self, listing: Listing) -> Found:
        """Return objects by the time of their making.  This is no use of them.

        Raises:
            NothingAfter: there is no object `listing.after`.
        """
        return self._rows.list(listing)

    def live(self, kind: Kind) -> Sequence[StoredObject]:
        """Return the objects that were being made when the file was left."""
        return self._rows.live(kind)

    @property
    def size(self) -> int:
        """Bytes of all objects, as their bound counts them."""
        return self._rows.size

    def prune(self) -> None:
        """Delete what was not used for too long, and then, while there is too much, what was not used for longest."""
        with self._transaction():
            self._rows.prune()

    def recover(self) -> None:
        """Set a file aside that was found to be damaged, and begin a new one."""
        self._connection.close()
        if self._folder is not None:
            set_aside(self._folder)
        self._begin()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _delete(self, kind: Kind, id: str, owner: str | None) -> bool:
        with self._transaction():
            return self._rows.delete(kind, id, owner)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing of what is changed meanwhile, and what was noted before; then what is gone is overwritten."""
        with self._committing():
            yield
        try:
            self._with_reserve(self._sweep)
        except sqlite3.Error as error:
            if not takes_nothing(error):
                raise
            logger.warning("stored objects: what was deleted stays in the file until the disk has room")

    def _sweep(self) -> None:
        while self._connection.execute("SELECT EXISTS (SELECT 1 FROM gone)").fetchone()[0]:
            with self._committing():
                sweep(self._connection)

    def _with_reserve(self, work: Callable[[], T]) -> T:
        """Do what deletes; where the disk takes nothing, once more with the room that is kept for that."""
        try:
            return work()
        except sqlite3.Error as error:
            if self._folder is None or not takes_nothing(error):
                raise
        with reserve_given_up(self._folder):
            done = work()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # which gives back what was written beside it
        return done

    @contextmanager
    def _committing(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            write_uses(self._connection, self._clock.look())
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # some errors have rolled it back
                self._connection.execute("ROLLBACK")
            raise

    def _begin(self) -> None:
        self._connection = _opened(self._folder)
        wall, steady = self._times
        self._clock = StoreClock(wall, steady, self._bounds.age * UNSEEN, last_seen(self._connection))
        self._rows = ObjectRows(self._connection, self._bounds, lambda: self._clock.look()[0])


def _opened(folder: Path | None) -> sqlite3.Connection:
    """Open the database of a folder, or one in memory; a damaged file is set aside.

    Raises:
        StateFolderError: the folder cannot be used.
    """
    if folder is None:
        return prepare(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    try:
        try:
            return prepare(connect(folder))
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
        set_aside(folder)
        return prepare(connect(folder))
    except UnknownVersion as error:
        raise StateFolderError(f"--state-dir: {error}") from error
    except sqlite3.Error as error:
        hint = "free some of the disk" if takes_nothing(error) else "does another server use it?"
        raise StateFolderError(f"--state-dir: {literal(str(folder))}: {error}; {hint}") from error


def _spans(chain: Sequence[tuple[int, bool]], last: Part) -> Sequence[Span]:
    """Return the items of a chain of objects: all of those before, and of the last one up to a part."""
    *before, (number, _) = chain
    return [*(Span(each, Part.MADE) for each, _ in before), Span(number, last)]
