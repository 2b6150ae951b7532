"""One piece at a time, from Trio to asyncio."""

from __future__ import annotations

import asyncio

import pytest
import trio
import trio.testing

from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.handoff import Closed, Handoff

PATIENCE = 60.0


def test_a_piece_waits_until_it_is_wanted() -> None:
    put: list[int] = []

    async def main() -> None:
        pieces: Handoff[int] = Handoff()

        async def produce() -> None:
            for piece in range(3):
                await pieces.put(piece)
                put.append(piece)
            pieces.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await trio.testing.wait_all_tasks_blocked()
            assert put == []
            assert await from_asyncio(pieces.take(PATIENCE)) == 0
            await trio.testing.wait_all_tasks_blocked()
            assert put == [0]
            assert await from_asyncio(pieces.take(PATIENCE)) == 1
            assert await from_asyncio(pieces.take(PATIENCE)) == 2
            with pytest.raises(Closed):
                await from_asyncio(pieces.take(PATIENCE))

    run_as_guest(main)


def test_who_waits_too_long_gets_nothing_and_loses_nothing() -> None:
    async def main() -> None:
        pieces: Handoff[str] = Handoff()
        assert await from_asyncio(pieces.take(0)) is None
        await pieces.put("a")
        assert await from_asyncio(pieces.take(PATIENCE)) == "a"

    run_as_guest(main)


def test_whoever_waits_is_told_of_the_end() -> None:
    async def main() -> None:
        pieces: Handoff[str] = Handoff()
        waiting = asyncio.ensure_future(pieces.take(PATIENCE))
        await trio.testing.wait_all_tasks_blocked()
        pieces.close()
        with pytest.raises(Closed):
            await from_asyncio(waiting)

    run_as_guest(main)
