"""Handoff from a Trio task to an asyncio generator, one piece at a time.

The task waits until a piece is wanted, so what a slow reader has not taken yet waits in the request's own buffer, where
it is accounted for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import trio

from web.cluster.guest import tell_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")

logger = logging.getLogger("cede.web")


class Closed(Exception):
    """Nothing comes any more."""


class Context(Protocol):
    """Context that Dynamo gives with a request."""

    def id(self) -> str:
        """The request's id, the same wherever it goes on."""

    def async_killed_or_stopped(self) -> asyncio.Future[bool]:
        """Return what is done when nobody wants the answer any longer."""


class _End:
    """Stands in a piece's place when none comes any more."""


class Handoff(Generic[T]):
    """One task puts, one generator takes; both in the same thread."""

    def __init__(self) -> None:
        self._wanted = trio.Event()
        self._coming: asyncio.Future[T | _End] | None = None
        self._closed = False

    async def put(self, piece: T) -> None:
        """Hand over a piece from the Trio task, once it is wanted; drop it if the end has been told since."""
        await self._wanted.wait()
        self._wanted = trio.Event()
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(piece)

    def close(self) -> None:
        """Say that no piece comes any more; whoever waits for one is told."""
        self._closed = True
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(_End())

    async def take(self, patience: float) -> T | None:
        """Return the next piece to asyncio's generator, or None if none comes within `patience` seconds.

        Raises:
            Closed: none comes any more.
        """
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
            if self._closed:
                raise Closed
            self._wanted.set()
        await asyncio.wait({self._coming}, timeout=patience)
        if not self._coming.done():
            return None
        piece, self._coming = self._coming.result(), None
        if isinstance(piece, _End):
            raise Closed
        return piece


class _Hold:
    """Keeper of a task at work for a generator, until one of the two reasons to let go.

    Dynamo calls `__anext__` in threads of its own, so asyncio's hooks for generators are never installed, and a
    generator that nobody wants any longer ends in whichever thread drops it.  There it only asks the loop.

    Args:
        gone: done when nobody wants the answer any longer.
        scope: of the task.
        pieces: that it hands over.
    """

    def __init__(self, gone: asyncio.Future[bool], scope: trio.CancelScope, pieces: Handoff[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._scope = scope
        self._pieces = pieces
        gone.add_done_callback(self._let_go)

    def leave(self) -> None:
        """Let go, for the generator ends; in any thread, at any time."""
        tell_loop(self._loop, self._let_go)

    def _let_go(self, _: object = None) -> None:
        """Let go, in the loop's thread."""
        self._gone.remove_done_callback(self._let_go)
        self._gone.cancel()
        self._scope.cancel()
        self._pieces.close()


@contextmanager
def handing_over(
    nursery: trio.Nursery, context: Context, run: Callable[[Handoff[T]], Awaitable[None]]
) -> Iterator[Handoff[T]]:
    """Yield the pieces that a task of Trio's hands over, to asyncio's generator, while the scope lasts.

    When the client hangs up, or the front door is gone, the task is cancelled in that moment, whatever the generator
    waits for; and when the generator ends, in whichever thread it does.

    Args:
        nursery: Trio's, in which the task runs.
        context: of the request, which says when nobody wants the answer any longer.
        run: the task.  What it raises is told to the log, and is the end of the pieces.
    """
    pieces: Handoff[T] = Handoff()
    scope = trio.CancelScope()

    async def hand_over() -> None:
        try:
            with scope:
                await run(pieces)
        except* Exception:  # also one beside a cancel, which is in a group with that until the scope has taken it out
            logger.exception("what a front door asked for as %s failed", context.id())
        pieces.close()

    hold = _Hold(asyncio.ensure_future(context.async_killed_or_stopped()), scope, pieces)
    nursery.start_soon(hand_over)
    try:
        yield pieces
    finally:
        hold.leave()
