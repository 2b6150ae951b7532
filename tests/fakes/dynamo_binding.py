"""Stand-in for what Dynamo's binding does to a handler's generator, without Dynamo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import trio

from web.cluster.guest import from_asyncio

T = TypeVar("T")


async def taken_elsewhere(make: Callable[[], AsyncIterator[T]], pieces: int) -> list[T]:
    """Take so many pieces of a generator, then drop it while it stands at a `yield`; both in a thread of its own.

    `__anext__` is called there, so asyncio's hooks for generators are never installed, and the last reference is
    dropped there, as when an answer cannot be sent any more.  In a Trio task; when this returns, the loop has done what
    it was told.
    """
    loop = asyncio.get_running_loop()

    async def awaited(awaitable: Awaitable[T]) -> T:
        return await awaitable

    def take() -> list[T]:
        generator, taken = make(), list[T]()
        for _ in range(pieces):
            taken.append(asyncio.run_coroutine_threadsafe(awaited(anext(generator)), loop).result())
        for _ in range(3):  # the loop lets go of what it has run
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        return taken

    taken = await trio.to_thread.run_sync(take)
    await from_asyncio(asyncio.sleep(0))
    return taken
