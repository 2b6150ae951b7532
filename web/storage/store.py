"""The stored objects for the event loop: one owner, whose database works in one thread at a time."""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import trio

from runtime.errors import Unavailable
from runtime.log_text import literal
from web.storage.database import ObjectDatabase
from web.storage.files import StateFolderError, is_damage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from web.storage.objects import Bounds, Found, Kind, Listing, StoredObject

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

    async def put(self, stored: StoredObject) -> bool:
        """Add an object, or put it in place of the one with its id; tell whether it is small enough to be kept."""
        return await self._change(lambda: self._database.put(stored))

    async def get(self, kind: Kind, id: str, owner: str | None) -> StoredObject | None:
        """Return an object; None if there is none of that id, or it is not that owner's."""
        return await self._run(lambda: self._database.get(kind, id, owner))

    async def chain(self, kind: Kind, id: str, owner: str | None) -> list[StoredObject] | None:
        """Return an object behind all those that it continues; None if one of them is not there."""
        return await self._run(lambda: self._database.chain(kind, id, owner))

    async def delete(self, kind: Kind, id: str, owner: str | None) -> bool:
        """Delete an object; tell whether it was there."""
        return await self._change(lambda: self._database.delete(kind, id, owner))

    async def change(
        self, kind: Kind, id: str, owner: str | None, change: Callable[[StoredObject], StoredObject]
    ) -> StoredObject | None:
        """Put what `change` makes of an object in its place, in a thread, and return that; None if it is not there.

        Raises:
            ObjectTooLarge: it would be; it is left as it was.
            CedeError: as `change` does.
        """
        return await self._change(lambda: self._database.change(kind, id, owner, change))

    async def list(self, listing: Listing) -> Found | None:
        """Return objects by the time of their making; None if there is no object `after`."""
        return await self._run(lambda: self._database.list(listing))

    async def live(self, kind: Kind) -> Sequence[StoredObject]:
        """Return the objects that were being made when the file was left."""
        return await self._run(lambda: self._database.live(kind))

    async def end_after(self, stop: trio.Event) -> None:
        """Once that is set, wait `END_SECONDS` for each call at most."""
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
            raise StoreFailed("The server's store of objects failed; its log says why.") from None

    def _recover(self) -> None:
        try:
            self._database.recover()
        except (sqlite3.Error, StateFolderError) as error:  # each later call fails, too: the database is closed
            logger.error("stored objects: there is no new file in place of the damaged one: %s", literal(error))


@asynccontextmanager
async def open_store(
    folder: Path | None, bounds: Bounds, now: Callable[[], float] = time.time
) -> AsyncIterator[ObjectStore]:
    """A store that is open while the scope lasts.

    Args:
        folder: where its file is; None to keep everything in memory.
        bounds: of what is kept.
        now: seconds since the epoch.

    Raises:
        StateFolderError: the folder cannot be used, or another process uses it.
    """
    database = await trio.to_thread.run_sync(ObjectDatabase, folder, bounds, now)
    store = ObjectStore(database)
    try:
        yield store
    finally:
        await store.close()
