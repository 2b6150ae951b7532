"""The feeds of all workers, for one reader.

Each worker has a task of its own, so that none waits for another.  All of them end with the scope of the reader.
"""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from web.cluster.control.feed.untaken import Standing, Untaken
from web.cluster.settings import SILENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from web.observability.inspection.feed.frames import Frame

LOOK_EVERY = 1.0
"""Seconds from one look at discovery to the next, which tells nobody; and until a worker that fell silent is asked."""

SNAPSHOT_SECONDS = 2.0
"""In which a worker has to say how it stands, where no more is asked."""


class ToldOf(Protocol):
    """All workers that discovery knows, as far as they tell of themselves."""

    def ids(self) -> list[str]:
        """Return those of all of them, in order."""

    def frames(self, worker: str) -> AsyncGenerator[Frame | None]:
        """Yield what a worker tells, and None as a sign of life, until it ends or cannot be reached; to be closed."""


class Follower:
    """Takes what workers tell, for one reader.

    Args:
        workers: all of them.
        untaken: what the reader has not taken yet.
    """

    def __init__(self, workers: ToldOf, untaken: Untaken) -> None:
        self._workers = workers
        self._untaken = untaken

    async def follow_all(self) -> None:
        """Follow those that there are, until cancelled."""
        following: dict[str, trio.CancelScope] = {}
        async with trio.open_nursery() as nursery:
            while True:
                there = self._workers.ids()
                for worker in sorted(following.keys() - there):
                    following.pop(worker).cancel()
                    self._untaken.say(worker, Standing.LEFT)
                for worker in there:
                    if worker not in following:
                        self._untaken.say(worker, Standing.JOINED)
                        following[worker] = scope = trio.CancelScope()
                        nursery.start_soon(self._follow, worker, scope)
                await trio.sleep(LOOK_EVERY)

    async def look_at_all(self) -> None:
        """Let each worker say how it stands, once."""
        async with trio.open_nursery() as nursery:
            for worker in self._workers.ids():
                nursery.start_soon(self._look, worker)
        self._untaken.end()

    async def _follow(self, worker: str, scope: trio.CancelScope) -> None:
        """Follow one until the scope is cancelled: whenever its stream ends or falls silent, it is asked again."""
        with scope:
            is_silent = False
            while True:
                has_spoken = await self._read(worker, scope)
                if scope.cancel_called:
                    return
                if has_spoken or not is_silent:
                    self._untaken.say(worker, Standing.SILENT)
                is_silent = True
                await trio.sleep(LOOK_EVERY)

    async def _read(self, worker: str, scope: trio.CancelScope) -> bool:
        """Read one stream to its end; whether anything came."""
        has_spoken = False
        async with aclosing(self._workers.frames(worker)) as frames:
            while not scope.cancel_called:
                with trio.move_on_after(SILENCE_SECONDS) as patience:
                    try:
                        frame = await anext(frames)
                    except StopAsyncIteration:
                        break
                if patience.cancelled_caught or scope.cancel_called:
                    break
                has_spoken = True
                if frame is not None:
                    self._untaken.add(worker, frame)
        return has_spoken

    async def _look(self, worker: str) -> None:
        with trio.move_on_after(SNAPSHOT_SECONDS):
            async with aclosing(self._workers.frames(worker)) as frames:
                async for frame in frames:
                    if frame is not None:
                        self._untaken.add(worker, frame)
                        return
        self._untaken.say(worker, Standing.SILENT)


@asynccontextmanager
async def followed(workers: ToldOf, stop: trio.Event, *, follow: bool) -> AsyncIterator[Untaken]:
    """Yield what one reader is told, until the scope ends, and with it all that was asked for it.

    Args:
        workers: all of them.
        stop: whoever serves is to end; so the reader is told nothing more.
        follow: whether more is told than how all stand.
    """
    untaken = Untaken()
    follower = Follower(workers, untaken)

    async def end() -> None:
        await stop.wait()
        untaken.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        nursery.start_soon(follower.follow_all if follow else follower.look_at_all)
        yield untaken
        nursery.cancel_scope.cancel()
