"""Accepts connections, up to a bound, and serves each with a `Connection` of its own."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext

from web.http.transport.connection import Connection
from web.http.transport.context import ServerContext
from web.http.transport.loop_share import LoopShare

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hypercorn import Config
    from hypercorn.typing import AppWrapper, LifespanState

    from web.http.transport.writer import Stream
    from web.process.limits import Limits

_log = logging.getLogger("cede.web")

_REFUSAL_BODY = (
    b'{"error": {"message": "The server has too many open connections.", "type": "unavailable_error", '
    b'"param": null, "code": null}}'
)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
) % (len(_REFUSAL_BODY), _REFUSAL_BODY)

MAX_REFUSALS = 64
"""Connections that are refused with an answer at a time.  More are closed without one."""

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

    At `stop` the listeners and the idle connections are closed.  The busy ones have `linger` seconds to finish and are
    then cancelled, stalled or not.  The application's lifespan (startup, shutdown) encloses all of it.

    Args:
        app: the application, in Hypercorn's wrapper.
        config: Hypercorn's.  Its timeouts, the settings of the protocols and the logs are used.
        listeners: open; they are closed here.
        limits: what clients may take of the server.
        stall_timeout: seconds in which a client has to take its share (`Limits.least_read`) of what is being sent to
            it.  Also the time for which more than `MAX_UNHANDLED` received bytes may wait for the application.
        linger: seconds.
        stop: set by whoever ends the server.
        task_status: told when connections are accepted.

    Raises:
        hypercorn.utils.LifespanFailureError: the application fails to start.
        hypercorn.utils.LifespanTimeoutError: the application does not start in time.
    """
    state: LifespanState = {}
    lifespan = Lifespan(app, config, state)
    worker = WorkerContext(None)
    server = ServerContext(app, config, worker, state, limits, stall_timeout, LoopShare())
    limiter = _ConnectionLimiter(limits.connections)

    async def serve_one(stream: Stream) -> None:
        await Connection(server, stream).run()

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
            await worker.terminated.set()  # closes the idle ones, now or when they become so
            connections.cancel_scope.deadline = trio.current_time() + linger
        await lifespan.wait_for_shutdown()
        lifespan_nursery.cancel_scope.cancel()


class _ConnectionLimiter:
    """Counts the open connections and refuses one too many, so that accepting never waits for others to end.

    Args:
        limit: connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = 0
        self._refusing = 0
        self._is_full = False  # since it was logged; so a full server makes one line, not one for each refusal

    async def admit(self, serve: Callable[[Stream], Awaitable[None]], stream: Stream) -> None:
        """Serve a connection, or refuse it."""
        if self._open >= self._limit:
            await self._refuse(stream)
            return
        self._open += 1
        try:
            await serve(stream)
        finally:
            self._open -= 1
            self._is_full &= self._open > self._limit * 7 // 8

    async def _refuse(self, stream: Stream) -> None:
        """Answer 503, if that costs little; the caller closes the stream."""
        if not self._is_full:
            _log.warning("refusing connections: %d are open (--max-connections)", self._open)
            self._is_full = True
        if isinstance(stream, trio.SSLStream) or self._refusing >= MAX_REFUSALS:
            return  # a handshake is too much work
        self._refusing += 1
        try:
            with suppress(trio.BrokenResourceError), trio.move_on_after(1):
                await stream.send_all(_REFUSAL)
                await stream.send_eof()
                while await stream.receive_some(2**14):  # or the kernel resets the connection, and the answer is lost
                    pass
        finally:
            self._refusing -= 1
