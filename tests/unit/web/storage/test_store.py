"""The store in the event loop: one call at a time, and errors that clients can be told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio

from tests.live.server import PATIENCE
from web.bodies.query import PageAsked
from web.storage import database
from web.storage import store as store_module
from web.storage.files import FILE
from web.storage.objects import Bounds, Item, ItemPage, Kind, Listing, ObjectNotFound, StoredObject
from web.storage.store import ObjectStore, StoreFailed, open_store

BOUNDS = Bounds(1_000_000, 1000.0)


def thing(id: str) -> StoredObject:
    return StoredObject(Kind.RESPONSE, id, b"{}" * 1000, created=1.0)


@pytest.mark.parametrize("on_disk", [True, False])
async def test_it_does_what_its_database_does(tmp_path: Path, on_disk: bool) -> None:
    async with open_store(tmp_path if on_disk else None, BOUNDS) as store:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(store.put, thing(f"r{number}"))
        assert len((await store.list(Listing(Kind.RESPONSE, None, 100))).objects) == 10
        changed = await store.annotate(Kind.RESPONSE, "r3", None, {"k": "v"})
        assert changed == replace(thing("r3"), metadata={"k": "v"}) == await store.get(Kind.RESPONSE, "r3", None)
        item = Item("i", b'{"id":"i"}')
        await store.append(Kind.RESPONSE, "r3", None, [item], 1)
        assert await store.item(Kind.RESPONSE, "r3", None, "i") == item
        page = ItemPage([item], has_more=False)
        assert await store.page(Kind.RESPONSE, "r3", None, PageAsked(1, ascending=True, after=None)) == page
        assert await store.before(Kind.RESPONSE, "r3", None, 1, 1) == page
        assert await store.remove(Kind.RESPONSE, "r3", None, "i") == changed
        await store.delete(Kind.RESPONSE, "r3", None)
        with pytest.raises(ObjectNotFound):
            await store.get(Kind.RESPONSE, "r3", None)
        assert not await store.live(Kind.RESPONSE)


async def test_it_is_closed_even_if_its_user_is_cancelled(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_store(tmp_path, BOUNDS):
            scope.cancel()
            await trio.lowlevel.checkpoint()
    async with open_store(tmp_path, BOUNDS):  # which another's lock would prevent
        pass


async def test_damage_that_is_found_while_it_is_open_costs_one_call(tmp_path: Path) -> None:
    bounds, names = Bounds(100_000_000, 1000.0), [f"r{number}" for number in range(60)]
    large = [
        StoredObject(Kind.RESPONSE, name, bytes(100_000), created=1.0) for name in names
    ]  # more than SQLite caches
    async with open_store(tmp_path, bounds) as store:
        for stored in large:
            await store.put(stored)
    async with open_store(tmp_path, bounds) as store:
        file = tmp_path / FILE
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.seek(4096)
            opened.write(b"\xff" * (size - 4096))

        async def read_all() -> None:
            for name in names:
                await store.get(Kind.RESPONSE, name, None)

        with pytest.raises(StoreFailed):
            await read_all()
        assert await store.put(thing("new"))
        assert await store.get(Kind.RESPONSE, "new", None) == thing("new")
    assert (tmp_path / f"{FILE}.damaged-1").exists()


async def test_what_sqlite_cannot_take_costs_its_caller_alone(tmp_path: Path) -> None:
    async with open_store(tmp_path, BOUNDS) as store:
        await store.put(thing("r1"))
        with pytest.raises(UnicodeEncodeError):
            await store.get(Kind.RESPONSE, "\ud800", None)
        assert await store.get(Kind.RESPONSE, "r1", None) == thing("r1"), "the file is not set aside for that"


async def test_a_row_that_nobody_wrote_is_damage(tmp_path: Path) -> None:
    async with open_store(tmp_path, BOUNDS) as store:
        await store.put(thing("r1"))
    with closing(sqlite3.connect(tmp_path / FILE)) as other, other:
        other.execute("UPDATE objects SET metadata = 'no JSON'")
    async with open_store(tmp_path, BOUNDS) as store:
        with pytest.raises(StoreFailed):
            await store.get(Kind.RESPONSE, "r1", None)
        with pytest.raises(ObjectNotFound):
            await store.get(Kind.RESPONSE, "r1", None)
        assert (tmp_path / f"{FILE}.damaged-1").exists()


async def test_where_no_new_file_can_be_made_each_call_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    async with open_store(tmp_path, BOUNDS) as store:
        await store.put(StoredObject("strange", "r1", b"{}", created=1.0))  # type: ignore[arg-type]
        monkeypatch.setattr(database, "connect", refuse)
        for _ in range(2):
            with pytest.raises(StoreFailed):
                await store.get("strange", "r1", None)  # type: ignore[arg-type]


# --- a disk that does not answer --------------------------------------------------------------------------------------


class FrozenDatabase(database.ObjectDatabase):
    """A database whose disk answers while `answers` is set.

    Attributes:
        is_asked: set when a call has come.
        has_answered: set when it was answered.
        opened: all of them.
    """

    answers = threading.Event()
    is_asked = threading.Event()
    has_answered = threading.Event()
    opened: ClassVar[list[FrozenDatabase]] = []

    def __init__(self, *args: Any) -> None:  # noqa: ANN401  as of its base
        super().__init__(*args)
        self.opened.append(self)

    def put(self, stored: StoredObject, given: Sequence[Item] = (), made: Sequence[Item] = ()) -> bool:
        """Wait for the disk, and then do it."""
        self.is_asked.set()
        assert self.answers.wait(PATIENCE)
        try:
            return super().put(stored, given, made)
        finally:
            self.has_answered.set()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FrozenDatabase]]:
    monkeypatch.setattr(store_module, "ObjectDatabase", FrozenDatabase)
    FrozenDatabase.answers.clear()
    FrozenDatabase.is_asked.clear()
    FrozenDatabase.has_answered.clear()
    yield FrozenDatabase
    FrozenDatabase.answers.set()
    assert FrozenDatabase.has_answered.wait(PATIENCE)
    while FrozenDatabase.opened:
        FrozenDatabase.opened.pop().close()


async def put_in_vain(store: ObjectStore, id: str, refused: list[str]) -> None:
    """Do what a request does at its end: nobody may cancel it."""
    with trio.CancelScope(shield=True):
        try:
            await store.put(thing(id))
        except StoreFailed:
            refused.append(id)


async def test_the_end_gives_up_a_disk_that_does_not_answer_and_says_what_may_be_lost(
    frozen: type[FrozenDatabase], caplog: pytest.LogCaptureFixture, autojump_clock: trio.abc.Clock
) -> None:
    refused: list[str] = []
    stop = trio.Event()
    async with trio.open_nursery() as services, open_store(None, BOUNDS) as store:
        services.start_soon(store.end_after, stop)
        async with trio.open_nursery() as nursery:
            for id in ("r1", "r2"):
                nursery.start_soon(put_in_vain, store, id, refused)
            await trio.to_thread.run_sync(frozen.is_asked.wait)
            await trio.sleep(60)
            assert not refused, "while it serves, it waits"
            stop.set()
        assert sorted(refused) == ["r1", "r2"]
        with pytest.raises(StoreFailed):  # at once, from now on
            await store.get(Kind.RESPONSE, "r1", None)
        assert store.hangs
    assert caplog.messages[-1] == (
        "the disk of --state-dir does not answer, and the server ends without it: 2 changes may be lost"
    )


async def test_who_gives_up_a_call_does_not_wait_for_the_disk(frozen: type[FrozenDatabase]) -> None:
    """As a request whose client has left does; the next call comes after it nevertheless."""
    async with open_store(None, BOUNDS) as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.put, thing("r1"))
            await trio.to_thread.run_sync(frozen.is_asked.wait)
            nursery.cancel_scope.cancel()
        frozen.answers.set()
        assert await store.get(Kind.RESPONSE, "r1", None) == thing("r1")
        assert not store.hangs


async def test_a_file_that_does_not_close_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: trio.abc.Clock
) -> None:
    closes, is_closed, close = threading.Event(), threading.Event(), database.ObjectDatabase.close

    def close_late(self: database.ObjectDatabase) -> None:
        closes.wait(PATIENCE)
        close(self)
        is_closed.set()

    monkeypatch.setattr(database.ObjectDatabase, "close", close_late)
    async with open_store(None, BOUNDS) as store:
        await store.put(thing("r1"))
    closes.set()
    assert store.hangs
    assert caplog.messages[-1].endswith("0 changes may be lost")
    assert is_closed.wait(PATIENCE)
