"""The store in the event loop: one call at a time, and errors that clients can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from web.storage.files import FILE
from web.storage.objects import Bounds, Kind, Listing, StoredObject
from web.storage.store import StoreFailed, open_store

if TYPE_CHECKING:
    from pathlib import Path

BOUNDS = Bounds(1_000_000, 1000.0)


def thing(id: str) -> StoredObject:
    return StoredObject(Kind.RESPONSE, id, b"{}" * 1000, created=1.0)


@pytest.mark.parametrize("on_disk", [True, False])
async def test_it_does_what_its_database_does(tmp_path: Path, on_disk: bool) -> None:
    async with open_store(tmp_path if on_disk else None, BOUNDS) as store:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(store.put, thing(f"r{number}"))
        assert len(await store.list(Listing(Kind.RESPONSE, None, 100)) or ()) == 10
        assert await store.delete(Kind.RESPONSE, "r3", None)
        assert await store.get(Kind.RESPONSE, "r3", None) is None
        assert await store.chain(Kind.RESPONSE, "r4", None) == [thing("r4")]
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
