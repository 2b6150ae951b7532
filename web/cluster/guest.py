"""Trio as a guest of asyncio: both loops in one thread, so that nothing between them needs a lock.

What is synchronous may be called from either side: `trio.Event.set`, `CancelScope.cancel`, `Nursery.start_soon` from
asyncio's, and whatever takes no `await` of asyncio's from Trio's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from outcome import Outcome

T = TypeVar("T")

logger = logging.getLogger("cede.web")

CANCEL_SECONDS = 1.0  # in which what was cancelled has to end


def run_as_guest(main: Callable[[], Awaitable[None]], clock: trio.abc.Clock | None = None) -> None:
    """Run a Trio program to its end, on an asyncio loop made for it.

    Signals are Trio's: asyncio's loop takes none.

    Args:
        main: the program.
        clock: Trio's; None for its own.
    """
    asyncio.run(_host(main, clock))


async def _host(main: Callable[[], Awaitable[None]], clock: trio.abc.Clock | None) -> None:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[Outcome[None]] = loop.create_future()
    trio.lowlevel.start_guest_run(
        main,
        run_sync_soon_threadsafe=loop.call_soon_threadsafe,
        run_sync_soon_not_threadsafe=loop.call_soon,
        done_callback=over.set_result,
        clock=clock,
    )
    (await over).unwrap()


def tell_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Let the loop call it soon, from any thread; not any more if the loop has ended, and all that ran on it.

    What another thread may run, such as the end of a generator that Dynamo drops, does nothing else.
    """
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(callback)


async def from_trio(nursery: trio.Nursery, function: Callable[[], Awaitable[T]]) -> T:
    """Run something in a task of Trio's from asyncio, and wait for its end.  A cancel here cancels that.

    Args:
        nursery: in which it runs.
        function: whose exceptions are raised here.
    """
    over: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    scope = trio.CancelScope()

    async def run() -> None:
        try:
            with scope:
                result = await function()
                if not over.done():  # else nobody waits any longer
                    over.set_result(result)
        except Exception as error:
            if not over.done():
                over.set_exception(error)
        finally:
            over.cancel()  # without effect on what has ended

    nursery.start_soon(run)
    try:
        return await over
    finally:
        scope.cancel()


async def from_asyncio(awaitable: Awaitable[T]) -> T:
    """Wait for something of asyncio's in a Trio task.

    A cancel of the task cancels that, and waits for its end; what has not ended a second later is left behind.
    """
    future = asyncio.ensure_future(awaitable)
    done = trio.Event()
    future.add_done_callback(lambda _: done.set())
    try:
        await done.wait()
    except trio.Cancelled:
        future.cancel()
        with trio.move_on_after(CANCEL_SECONDS, shield=True):
            await done.wait()
        if not done.is_set():
            logger.error("what was cancelled has not ended within %g s, and is left behind: %r", CANCEL_SECONDS, future)
        elif not future.cancelled():
            future.exception()  # looked at, so that asyncio says nothing of it
        raise
    return future.result()
