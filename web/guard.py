"""Hypercorn's connections, each kept from harming the server and from outliving its client.

Hypercorn speaks HTTP/1.1 and HTTP/2 well, but its trio worker (0.18) ties three things together that have
to come apart:

- A connection's fate and the server's. An exception in one connection leaves through the server's nursery.
  Here a connection's exceptions end in `_Guard.run`.
- A write and the request that asked for it. Half a write cannot be taken back, so Hypercorn shields it from
  the request's cancellation, and with it from every other one. Here the bytes belong to the connection as
  soon as the protocol has made them: one task writes them, with a clock that every accepted byte restarts.
  A request waits for that task, which the connection's end and the clock can always stop.
- Reading the socket and handling what was read. Whatever the protocol waits for (a slow application, the
  end of the response before a pipelined request), the socket goes unread and its closing unseen. Here one
  task reads, another handles.

A connection's tasks (writer, reader, handler, Hypercorn's own, and the requests) live in one nursery, that of
`_Guard.run`. When the reader meets the end of the stream, nobody is listening, and the nursery is cancelled.
"""

import logging
import math
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio
from hypercorn import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    ConnectionState,
    LifespanState,
    Scope,
)
from hypercorn.utils import repr_socket_addr

from runtime.log_text import literal
from web.handover import Handover
from web.limits import Limits

MAX_UNHANDLED = 2**18
"""Bytes read ahead of the protocol, 256 KiB: room for any sane pipeline. Beyond it the reader waits."""

_TLS_SLICE = 2**14
"""One TLS record: the least that an SSLStream can be seen to progress by."""

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A client that vanished (power, network) is missed after 15 + 3 * 5 s. KEEPALIVE is macOS's name for IDLE."""

_log = logging.getLogger("cede.web")

Listener = trio.SocketListener | trio.SSLListener[trio.SocketStream]
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@dataclass(eq=False)
class Connection:
    """One TCP connection, as its requests see it: `scope["state"]["connection"]`."""

    stall_timeout: float = math.inf
    """Seconds without progress after which a reader is given up; over HTTP/2 each request has to look for itself."""

    stalled: bool = False
    """A reader on it took nothing for so long, and was cut."""


async def serve(
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
    `stall_timeout` (seconds) bounds the time in which a client takes no byte of what is being sent to it; a slow
    one that takes some is left alone. It also bounds how long more than `MAX_UNHANDLED` received bytes may wait
    for the application.

    Raises hypercorn's LifespanFailureError or LifespanTimeoutError where the application fails to start.
    """
    state: LifespanState = {}
    lifespan = Lifespan(app, config, state)
    context = WorkerContext(None)

    async def guard(stream: Stream) -> None:
        await _Guard(partial(_run, app), config, context, state, stream, limits, stall_timeout).run()

    async with trio.open_nursery() as lifespan_nursery:
        await lifespan_nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accept: Callable[..., Any] = partial(trio.serve_listeners, handler_nursery=connections)
                accepting.start_soon(accept, guard, list(listeners))
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel(reason="the server is stopping")
            await context.terminated.set()  # closes the idle ones, now or when they become so
            connections.cancel_scope.deadline = trio.current_time() + linger
        await lifespan.wait_for_shutdown()
        lifespan_nursery.cancel_scope.cancel()


async def _run(
    app: AppWrapper,
    scope: Scope,
    receive: ASGIReceiveCallable,
    send: ASGISendCallable,
    *threads: Callable[..., Any],
) -> None:
    """Run one request; what it sends has a cancel point before it, since there is none while bytes are made."""

    async def send_whole(message: ASGISendEvent) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        await send(message)

    await app(scope, receive, send_whole, *threads)


class _Guard(TCPServer):
    """Hypercorn's connection, with an end of its own, a writer with a clock, and a reader that never parks.

    Its nursery is `run`'s; `_scope` is what ends it.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: LifespanState,
        stream: Stream,
        limits: Limits,
        stall_timeout: float,
    ) -> None:
        self.connection = Connection(stall_timeout)
        state = ConnectionState(LifespanState({**state, "connection": self.connection}))
        super().__init__(app, config, context, state, stream)  # type: ignore[arg-type]  # it takes both kinds
        self._tls = isinstance(stream, trio.SSLStream)
        self._socket = (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket
        self._limits = limits
        self._stall_timeout = stall_timeout
        self._received = Handover()
        self._to_send = Handover()
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Serve the connection to its end. Whatever it raises ends here, and nothing else with it."""
        peer = "a client"
        try:
            peer = repr_socket_addr(self._socket.family, self._socket.getpeername())
            _keep_alive(self._socket)
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await super().run()
                    nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, or we have closed, in mid-write
        except* Exception as errors:
            why = ", ".join(literal(repr(error)) for error in _leaves(errors))
            _log.warning("connection from %s ended: %s", peer, why)
            _log.debug("the same, with its traceback", exc_info=errors)

    async def protocol_send(self, event: Event) -> None:
        """Hand the protocol's bytes to the writer and wait until they have gone, or end the connection.

        The protocol counts the bytes as sent from the moment it has made them (h11's state, HPACK's tables),
        and tells of idleness and closing when its request may have been cancelled already: Hypercorn says
        http.disconnect at the end of every response. So a request cannot be cancelled in here, only before
        it begins to send: see `_run`. The connection's own end stops the writer, and with it all waiting.
        """
        with trio.CancelScope(shield=True):
            if isinstance(event, RawData):
                self._to_send.put(event.data)
                await self._to_send.settled()
            elif isinstance(event, Closed):
                self._task_group.spawn(self._close)  # the reader sees it, and ends the rest
            else:
                await super().protocol_send(event)

    async def _write(self) -> None:
        unsent = memoryview(b"")
        try:
            while True:
                unsent = memoryview(await self._to_send.take())
                while unsent:
                    with trio.move_on_after(self._stall_timeout) as clock:
                        unsent = unsent[await self._send_some(unsent) :]
                    if clock.cancelled_caught:
                        self.connection.stalled = True
                        raise trio.TooSlowError(f"its reader took nothing for {self._stall_timeout:g} s")
        finally:
            self._to_send.close()
            if unsent:  # a reset tells the client, and frees what the kernel still holds for it
                with suppress(OSError):
                    reset = struct.pack("ii", 1, 0)
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    async def _send_some(self, data: memoryview) -> int:
        """Send some bytes of `data`, as many as go at once; how many that were."""
        if self._tls:
            record = data[:_TLS_SLICE]
            await self.stream.send_all(record)
            return len(record)
        return await self._socket.send(data)

    async def _read_data(self) -> None:
        """Read to the end of the stream, whatever the protocol is waiting for; then nobody is listening."""
        self._task_group.spawn(self._handle_received)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self.stream.receive_some(MAX_RECV):
                self._received.put(data)
                if len(self._received) > MAX_UNHANDLED:
                    await self._let_handle()
        self._scope.cancel(reason="the client has gone")

    async def _let_handle(self) -> None:
        with trio.move_on_after(self._stall_timeout) as clock:
            await self._received.settled()
        if clock.cancelled_caught:
            excess = len(self._received)
            raise trio.TooSlowError(f"{excess} bytes went unhandled for {self._stall_timeout:g} s")

    async def _handle_received(self) -> None:
        while True:
            data = await self._received.take()
            protocol = self.protocol.protocol  # which changes when HTTP/1.1 gives way to HTTP/2
            if isinstance(protocol, H2Protocol) and not isinstance(protocol.streams, _Streams):
                protocol.streams = _Streams(protocol.streams)
            await self.protocol.handle(RawData(data))

    async def _idle_timeout(self) -> None:
        with trio.move_on_after(self.config.keep_alive_timeout):
            await self.context.terminated.wait()
        await self._close()

    async def _close(self) -> None:
        await self._to_send.settled()
        with trio.move_on_after(self._stall_timeout):  # a TLS goodbye is a write, too
            await super()._close()


class _Streams(dict[int, Any]):
    """H2Protocol's open streams; one that is answered and forgotten swallows what the client still sends.

    H2Protocol looks the stream of a DATA frame up here, hands it the data, and gives the flow-control window
    back; a request's body that comes after its answer is legal, and common where the answer is an error.
    """

    def __missing__(self, stream_id: int) -> "_Answered":
        return _Answered()


class _Answered:
    async def handle(self, event: object) -> None:
        pass


def _keep_alive(sock: trio.socket.SocketType) -> None:
    """Have the kernel look after a silent client. (TCP_NODELAY, for small events, is trio's default.)"""
    with suppress(OSError):  # not a TCP socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
