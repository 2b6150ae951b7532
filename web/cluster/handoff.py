"""From a Trio task to an asyncio generator, one piece at a time.

The task waits until a piece is wanted, so what a slow reader has not taken yet waits in the request's own buffer, where
it is accounted for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")

logger = logging.getLogger("cede.web")


class Closed(Exception):
    """Nothing comes any more."""


class Context(Protocol):
    """What Dynamo tells of a request besides what is asked."""

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
        """In the Trio task: hand over a piece, once it is wanted; drop it if the end has been told since."""
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
        """In asyncio's generator: the next piece, or None if none comes within `patience` seconds.

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


@contextmanager
def handing_over(
    nursery: trio.Nursery, context: Context, run: Callable[[Handoff[T]], Awaitable[None]]
) -> Iterator[Handoff[T]]:
    """In asyncio's generator: the pieces that a task of Trio's hands over, while the scope lasts.

    When the client hangs up, or the front door is gone, the task is cancelled in that moment, whatever the generator
    waits for.

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

    def leave(_: object = None) -> None:
        scope.cancel()
        pieces.close()

    gone = asyncio.ensure_future(context.async_killed_or_stopped())
    gone.add_done_callback(leave)
    nursery.start_soon(hand_over)
    try:
        yield pieces
    finally:
        gone.remove_done_callback(leave)
        gone.cancel()
        leave()
