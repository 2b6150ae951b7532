"""The limiter: connections are accepted up to a bound, and each is served by a `Connection` of its own."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext

from web.http.transport.connection import Connection, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypercorn import Config
    from hypercorn.typing import AppWrapper, LifespanState

    from web.limits import Limits

_log = logging.getLogger("cede.web")

_WHY = (
    b'{"error": {"message": "The server has too many open connections.", "type": "unavailable_error", '
    b'"param": null, "code": null}}'
)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
) % (len(_WHY), _WHY)

_REFUSING = 64
"""Connections that are refused with an answer at a time; beyond it they are only closed."""

Listener: TypeAlias = trio.SocketListener | trio.SSLListener[trio.SocketStream]


async def serve_connections(
    app: AppWrapper,
    config: Config,
    listeners: Sequence[Listener],
    *,
    limits: Limits,
    stall_timeout: float,
    linger: float,
    stop: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` on `listeners` until `stop` is set, then end in at most `linger` seconds.

    At `stop` the listeners and the idle connections are closed; the busy ones have `linger` seconds to finish
    and are then cancelled, stalled or not. The application's lifespan (startup, shutdown) encloses all of it.

    Clients are held to `limits`. Of `config` the keep-alive and protocol settings and the logs are used.
    `stall_timeout` (seconds) bounds the time in which a client takes less than its share (`Limits.least_read`) of what
    is being sent to it; a slow one that takes that is left alone. It also bounds how long more than
    `MAX_UNHANDLED` received bytes may wait for the application.

    Raises hypercorn's LifespanFailureError or LifespanTimeoutError where the application fails to start.
    """
    state: LifespanState = {}
    lifespan = Lifespan(app, config, state)
    context = WorkerContext(None)
    limiter = _ConnectionLimiter(limits.connections)

    async def serve_one(stream: Stream) -> None:
        await Connection(app, config, context, state, stream, limits, stall_timeout).run()

    async with trio.open_nursery() as lifespan_nursery:
        await lifespan_nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accept: Callable[..., Any] = partial(trio.serve_listeners, handler_nursery=connections)
                accepting.start_soon(accept, partial(limiter.admit, serve_one), list(listeners))
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel(reason="the server is stopping")
            await context.terminated.set()  # closes the idle ones, now or when they become so
            connections.cancel_scope.deadline = trio.current_time() + linger
        await lifespan.wait_for_shutdown()
        lifespan_nursery.cancel_scope.cancel()


class _ConnectionLimiter:
    """Counts the open connections; one too many is refused, so that accepting never waits for others to end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._refusing = 0
        self._is_full = False  # and the log says so

    async def admit(self, serve: Callable[[Stream], Any], stream: Stream) -> None:
        """Serve a connection, or refuse it."""
        if self._open >= self._most:
            await self._refuse(stream)
            return
        self._open += 1
        try:
            await serve(stream)
        finally:
            self._open -= 1
            self._is_full &= self._open > self._most * 7 // 8

    async def _refuse(self, stream: Stream) -> None:
        if not self._is_full:
            _log.warning("refusing connections: %d are open (--max-connections)", self._open)
            self._is_full = True
        if isinstance(stream, trio.SSLStream) or self._refusing >= _REFUSING:
            return  # which closes it; a handshake is too much work
        self._refusing += 1
        try:
            with suppress(trio.BrokenResourceError), trio.move_on_after(1):
                await stream.send_all(_REFUSAL)
                await stream.send_eof()
                while await stream.receive_some(2**14):  # or the kernel resets the connection, and the answer with it
                    pass
        finally:
            self._refusing -= 1
