"""The stored objects for the event loop: one owner, whose database works in one thread at a time."""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import trio

from runtime.common.log_text import literal
from runtime.errors import Unavailable
from web.storage.database import ObjectDatabase
from web.storage.files import StateFolderError, is_damage, takes_nothing
from web.storage.objects import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from web.bodies.query import PageAsked
    from web.storage.objects import Bounds, Found, Item, ItemPage, Kind, Listing, StoredObject

END_SECONDS = 1.0  # that the server's end waits for one call

logger = logging.getLogger("cede.web")

T = TypeVar("T")


class StoreFailed(Unavailable):
    """The disk does not take or give stored objects now, or their file was damaged."""

    code = "store_failed"


class ObjectStore:
    """Stored objects.  Each call is one transaction, in a thread, after those that came before it.

    A damaged file is set aside by name, and a new one begun; the call that found it raises StoreFailed.

    A disk may not answer.  Who is cancelled leaves the call to its thread, and so does the server's end, after a while,
    for all that wait; later calls then raise StoreFailed at once.

    Args:
        database: open, and used by nobody else.

    Attributes:
        hangs: whether the end has given up the disk.
    """

    def __init__(self, database: ObjectDatabase) -> None:
        self.hangs = False
        self._database = database
        self._one = trio.CapacityLimiter(1)
        self._patience = math.inf  # seconds for a call
        self._waits: set[trio.CancelScope] = set()
        self._lost_changes = 0

    async def put(self, stored: StoredObject, given: Sequence[Item] = (), made: Sequence[Item] = ()) -> bool:
        """Add an object and its items, or put it in place of the one with its id; tell whether it could be kept."""
        return await self._change(lambda: self._database.put(stored, given, made))

    # --- one object; each of these raises ObjectNotFound where there is none of that id, or it is not that owner's ---

    async def get(self, kind: Kind, id: str, owner: str | None) -> StoredObject:
        """Return an object."""
        return _found(kind, id, await self._run(lambda: self._database.get(kind, id, owner)))

    async def delete(self, kind: Kind, id: str, owner: str | None) -> None:
        """Delete an object."""
        _found(kind, id, await self._change(lambda: self._database.delete(kind, id, owner)))

    async def annotate(self, kind: Kind, id: str, owner: str | None, metadata: Mapping[str, str]) -> StoredObject:
        """Put other metadata in place of an object's, and return it.

        Raises:
            ObjectTooLarge: it would be; it is left as it was.
        """
        return _found(kind, id, await self._change(lambda: self._database.annotate(kind, id, owner, metadata)))

    async def append(self, kind: Kind, id: str, owner: str | None, items: Sequence[Item], most: int) -> None:
        """Add items to an object, all or none.

        Raises:
            RequestError: there would be more than `most`, or two of one id.
            ObjectTooLarge: it would be; it is left as it was.
        """
        _found(kind, id, await self._change(lambda: self._database.append(kind, id, owner, items, most)))

    async def remove(self, kind: Kind, id: str, owner: str | None, item_id: str) -> StoredObject:
        """Take an item away, and return the object.

        Raises:
            ItemNotFound: there is no such item.
        """
        return _found(kind, id, await self._change(lambda: self._database.remove(kind, id, owner, item_id)))

    async def item(self, kind: Kind, id: str, owner: str | None, item_id: str) -> Item:
        """Return an item of an object.

        Raises:
            ItemNotFound: there is no such item.
        """
        return _found(kind, id, await self._run(lambda: self._database.item(kind, id, owner, item_id)))

    async def page(self, kind: Kind, id: str, owner: str | None, asked: PageAsked) -> ItemPage:
        """Return a page of what was given to an object, behind all that it continues.

        Raises:
            NothingAfter: there is no item `asked.after`.
        """
        return _found(kind, id, await self._run(lambda: self._database.page(kind, id, owner, asked)))

    async def before(self, kind: Kind, id: str, owner: str | None, most: int, most_bytes: int) -> ItemPage:
        """Return the newest items of an object and of all that it continues, all of which have to be there."""
        return _found(kind, id, await self._run(lambda: self._database.before(kind, id, owner, most, most_bytes)))

    # --- several ------------------------------------------------------------------------------------------------------

    async def list(self, listing: Listing) -> Found:
        """Return objects by the time of their making.

        Raises:
            NothingAfter: there is no object `listing.after`.
        """
        return await self._run(lambda: self._database.list(listing))

    async def end(self, stored: StoredObject) -> None:
        """Put another body in place of a live object's, which is live no longer; its items stay."""
        await self._change(lambda: self._database.end(stored))

    async def live(self, kind: Kind) -> Sequence[StoredObject]:
        """Return the objects that were being made when the file was left."""
        return await self._run(lambda: self._database.live(kind))

    async def end_after(self, stop: trio.Event) -> None:
        """Wait `END_SECONDS` for each call at most once that is set."""
        await stop.wait()
        self._patience = END_SECONDS
        for wait in self._waits:
            wait.deadline = trio.current_time() + END_SECONDS

    async def close(self) -> None:
        """Close the file; one that does not answer is left as it is, for the next start to recover."""
        self._patience = END_SECONDS
        with trio.CancelScope(shield=True), suppress(StoreFailed):
            await self._run(self._database.close)
        if self.hangs:
            logger.error(
                "the disk of --state-dir does not answer, and the server ends without it: %d changes may be lost",
                self._lost_changes,
            )

    async def _change(self, work: Callable[[], T]) -> T:
        try:
            return await self._run(work)
        finally:
            self._lost_changes += self.hangs

    async def _run(self, work: Callable[[], T]) -> T:
        if not self.hangs:
            with trio.move_on_after(self._patience) as wait:
                self._waits.add(wait)
                try:
                    # The thread goes on, and has its turn until it ends.
                    return await trio.to_thread.run_sync(self._guarded, work, limiter=self._one, abandon_on_cancel=True)
                finally:
                    self._waits.discard(wait)
            self.hangs = True
        raise StoreFailed("The server ends, and its store of objects does not answer.")

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            logger.error("stored objects: %s", literal(error))
            if is_damage(error):
                self._recover()
            if takes_nothing(error):
                raise StoreFailed(
                    "The server's disk takes no stored objects now; what is stored can be read."
                ) from None
            raise StoreFailed("The server's store of objects failed; its log says why.") from None

    def _recover(self) -> None:
        try:
            self._database.recover()
        except (sqlite3.Error, StateFolderError) as error:  # each later call fails, too: the database is closed
            logger.error("stored objects: there is no new file in place of the damaged one: %s", literal(error))


def _found(kind: Kind, id: str, found: T | None) -> T:
    """Return what a call has found.  Raises ObjectNotFound where it says that there is no such object."""
    if not found:
        raise ObjectNotFound(kind, id)
    return found


@asynccontextmanager
async def open_store(
    folder: Path | None,
    bounds: Bounds,
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
) -> AsyncIterator[ObjectStore]:
    """A store that is open while the scope lasts.

    Args:
        folder: where its file is; None to keep everything in memory.
        bounds: of what is kept.
        wall: seconds since the epoch.
        steady: seconds, from anywhere on, that no setting of the clock changes.

    Raises:
        StateFolderError: the folder cannot be used, or another process uses it.
    """
    database = await trio.to_thread.run_sync(ObjectDatabase, folder, bounds, wall, steady)
    store = ObjectStore(database)
    try:
        yield store
    finally:
        await store.close()
