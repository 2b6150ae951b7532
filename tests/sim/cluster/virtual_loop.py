"""asyncio in Trio's virtual time: callbacks run in a Trio task, in their order, and timers are Trio's.

In a worker Trio is the guest of asyncio's loop (`web.cluster.guest`); here it is the other way round, because virtual
time is Trio's.  For what runs on either side that is the same: one thread, and each may call what is synchronous of
the other.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from asyncio import _set_running_loop as set_running_loop  # listed in `__all__`, for those who write loops
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio


class _Call(asyncio.Handle):
    """A callback that is to run."""

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        context = contextvars.copy_context() if context is None else context
        super().__init__(callback, args, loop, context)
        self.waits = trio.CancelScope()
        self._call = partial(context.run, callback, *args)

    def cancel(self) -> None:
        """Do not run it; asyncio's."""
        super().cancel()
        self.waits.cancel()

    def run(self) -> None:
        """Run it, if it is still wanted."""
        if not self.cancelled():
            self._call()


class VirtualLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as futures, tasks, locks and time limits need.  Made by `open_loop`.

    Attributes:
        complaints: what asyncio had to say of exceptions that nobody looked at.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.complaints: list[str] = []
        self._nursery = nursery
        self._ready: deque[_Call] = deque()
        self._woken = trio.Event()

    def time(self) -> float:
        """Virtual time."""
        return trio.current_time()

    def call_soon(  # type: ignore[override]  # its callbacks may take anything
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run it after all that was to run before."""
        call = _Call(callback, args, self, context)
        self._ready.append(call)
        self._woken.set()
        return call

    def call_soon_threadsafe(  # type: ignore[override]  # its callbacks may take anything
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """The same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]  # a handle of our own will do: it can be cancelled
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run it after so many virtual seconds."""
        call = _Call(callback, args, self, context)
        self._nursery.start_soon(self._wait, call, self.time() + delay)
        return call

    async def _wait(self, call: _Call, when: float) -> None:
        with call.waits:
            await trio.sleep_until(when)
            self._ready.append(call)
            self._woken.set()

    def create_future(self) -> asyncio.Future[Any]:
        """One of this loop's."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **_: Any) -> asyncio.Task[Any]:  # type: ignore[override]  # noqa: ANN401
        """One of this loop's."""
        return asyncio.Task(coro, loop=self)

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_closed(self) -> bool:
        """Never."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note it; asyncio calls this where nothing can be raised."""
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    async def run(self) -> None:
        """Run what is ready, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, None)  # asyncio's generators are none of Trio's
            try:
                for _ in range(len(self._ready)):
                    self._ready.popleft().run()
            finally:
                sys.set_asyncgen_hooks(*hooks)
            if self._ready:
                self._woken.set()
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_loop() -> AsyncIterator[VirtualLoop]:
    """A loop that runs while the scope lasts, and is the running one of this thread."""
    async with trio.open_nursery() as nursery:
        loop = VirtualLoop(nursery)  # type: ignore[abstract]  # what has no use here raises NotImplementedError
        nursery.start_soon(loop.run)
        set_running_loop(loop)
        try:
            yield loop
        finally:
            set_running_loop(None)
            nursery.cancel_scope.cancel()
