"""One connection, kept from harming the server and from outliving its client (DESIGN section 10).

Hypercorn's trio worker ties three things together that have to come apart:

- A connection's fate and the server's. An exception in one connection leaves through the server's nursery.
  Here a connection's exceptions end in `Connection.run`.
- A write and the request that asked for it. Half a write cannot be taken back, so Hypercorn shields it from
  the request's cancellation, and with it from every other one. Here the bytes belong to the connection as
  soon as the protocol has made them: one task writes them, with a clock that every share taken restarts.
  A request waits for that task, which the connection's end and the clock can always stop.
- Reading the socket and handling what was read. Whatever the protocol waits for (a slow application, the
  end of the response before a pipelined request), the socket goes unread and its closing unseen. Here one
  task reads, another handles.

A connection's tasks (writer, reader, handler, the idle timer, and the requests) live in one nursery, that of
`Connection.run`. When the reader meets the end of the stream, nobody is listening, and the nursery is cancelled. When
the protocol is at its end, so are the requests; the connection has some more time for its last bytes.
"""

from __future__ import annotations

import logging
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import TrioSingleTask
from hypercorn.typing import ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr, repr_socket_addr

from runtime.log_text import literal
from web.http.transport.byte_queue import ByteQueue
from web.http.transport.protocols import ProtocolWrapper
from web.http.transport.task_group import ConnectionTaskGroup
from web.limits import MAX_UNHANDLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypercorn import Config
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper

    from web.limits import Limits

_MAX_RECV = 2**16

_TLS_SLICE = 2**14
"""One TLS record: the least that an SSLStream can be seen to progress by."""

_LAST_WORD = 1.0
"""Seconds in which a client may stop sending before a close: a socket closed on unread bytes resets the connection,
and the client may lose the answer that says why."""

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A client that vanished (power, network) is missed after 15 + 3 * 5 s. KEEPALIVE is macOS's name for IDLE."""

_log = logging.getLogger("cede.web")

Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class Connection:
    """A connection with an end of its own, a writer with a clock, and a reader that never parks."""

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
        self._app = app
        self._config = config
        self._context = context
        self._state = ConnectionState(LifespanState({**state}))
        self._stream = stream
        self._tls = isinstance(stream, trio.SSLStream)
        self._socket = (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket
        self._limits = limits
        self._stall_timeout = stall_timeout
        self._received = ByteQueue()
        self._to_send = ByteQueue()
        self._scope = trio.CancelScope()
        self._requests = ConnectionTaskGroup()
        self._idle = TrioSingleTask()
        self._is_over = False

    async def run(self) -> None:
        """Serve the connection to its end. Whatever it raises ends here, and nothing else with it."""
        peer = "a client"
        try:
            peer = repr_socket_addr(self._socket.family, self._socket.getpeername())
            _keep_alive(self._socket)
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._serve()
                    nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, or we have closed, in mid-write
        except* Exception as errors:
            why = ", ".join(literal(repr(error)) for error in _leaves(errors))
            _log.warning("connection from %s ended: %s", peer, why)
            _log.debug("the same, with its traceback", exc_info=errors)

    async def _serve(self) -> None:
        alpn = None
        if isinstance(self._stream, trio.SSLStream):
            with trio.move_on_after(self._config.ssl_handshake_timeout) as clock:
                await self._stream.do_handshake()
                alpn = self._stream.selected_alpn_protocol()
            if clock.cancelled_caught:
                return
        family = self._socket.family
        async with self._requests:
            protocol = ProtocolWrapper(
                self._app,
                self._config,
                self._context,
                self._requests,
                self._state,
                self._tls,
                parse_socket_addr(family, self._socket.getpeername()),
                parse_socket_addr(family, self._socket.getsockname()),
                self._protocol_send,
                alpn=alpn,
                limits=self._limits,
                stall_timeout=self._stall_timeout,
            )
            await protocol.initiate()
            await self._idle.restart(self._requests, self._idle_timeout)
            self._requests.spawn(self._handle_received, protocol)
            await self._read()

    async def _protocol_send(self, event: Event) -> None:
        """Hand the protocol's bytes to the writer and wait until they have gone, or end what it says is at its end.

        The protocol counts the bytes as sent from the moment it has made them (h11's state, HPACK's tables),
        and tells of idleness and closing when its request may have been cancelled already. So a request cannot be
        cancelled in here, only before it begins to send: see `ConnectionTaskGroup`. The connection's own end stops the
        writer, and with it all waiting.
        """
        with trio.CancelScope(shield=True):
            if isinstance(event, RawData):
                self._to_send.put(event.data)
                await self._to_send.join()
            elif isinstance(event, Closed):
                self._is_over = True
                self._requests.end()
                self._requests.spawn(self._close, _LAST_WORD)  # the reader sees it, and ends the rest
            elif isinstance(event, Updated):
                if event.idle:
                    await self._idle.restart(self._requests, self._idle_timeout)
                else:
                    await self._idle.stop()

    async def _write(self) -> None:
        """Write what there is; the connection ends where its reader does not take a share of it in each stall timeout.

        What is put while a write waits is in the next one, so that a reader who lags finds more waiting, and has to
        take the whole share.
        """
        unsent = memoryview(b"")
        try:
            while True:
                unsent = memoryview(await self._to_send.get())
                while unsent:
                    enough = max(0, len(unsent) - self._limits.least_read)
                    with trio.move_on_after(self._stall_timeout) as clock:
                        while len(unsent) > enough:
                            unsent = unsent[await self._send_some(unsent) :]
                    if clock.cancelled_caught:
                        self._requests.end(stalled=True)
                        raise trio.TooSlowError(f"its reader took too little for {self._stall_timeout:g} s")
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
            await self._stream.send_all(record)
            return len(record)
        return await self._socket.send(data)

    async def _read(self) -> None:
        """Read to the end of the stream, whatever the protocol is waiting for; then nobody is listening."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self._stream.receive_some(_MAX_RECV):
                if self._is_over:
                    continue  # and nobody is interested
                self._received.put(data)
                if len(self._received) > MAX_UNHANDLED:
                    await self._let_handle()
        self._scope.cancel(reason="the client has gone")

    async def _let_handle(self) -> None:
        with trio.move_on_after(self._stall_timeout) as clock:
            await self._received.join()
        if clock.cancelled_caught:
            excess = len(self._received)
            raise trio.TooSlowError(f"{excess} bytes went unhandled for {self._stall_timeout:g} s")

    async def _handle_received(self, protocol: ProtocolWrapper) -> None:
        while True:
            await protocol.handle(RawData(await self._received.get()))

    async def _idle_timeout(self) -> None:
        with trio.move_on_after(self._config.keep_alive_timeout):
            await self._context.terminated.wait()
        await self._close(0)

    async def _close(self, last_word: float) -> None:
        """Close, with what is still to be written before, and so many seconds for the client to do the same."""
        await self._to_send.join()
        with trio.move_on_after(self._stall_timeout):  # a TLS goodbye is a write, too
            if isinstance(self._stream, trio.SocketStream) and not self._context.terminated.is_set():
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._stream.send_eof()
                await trio.sleep(last_word)  # the reader's end of stream ends this, too
            await self._stream.aclose()


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
