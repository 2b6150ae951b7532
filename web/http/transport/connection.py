"""One connection, kept from harming the server and from outliving its client (DESIGN section 10).

Hypercorn's trio worker ties three things together that have to come apart:

- The end of a connection and that of the server.  In Hypercorn an exception of one connection leaves through the
  server's nursery.  Here it ends in `Connection.run`.
- A write and the request that asked for it.  Half a write cannot be taken back, so Hypercorn shields it from the
  request's cancellation, and with it from every other one.  Here one task of the connection writes what the socket
  does not take at once (`web.http.transport.writer`).  A request waits for that task, which the connection's end and
  the stall timeout can always stop.
- Reading from the socket and handling what was read.  Whatever the protocol waits for (a slow application, the end of
  the response before a pipelined request), Hypercorn does not read meanwhile and does not see the client close.  Here
  one task reads and another handles.

The tasks of a connection (writer, reader, handler, the idle timer, and the requests) live in one nursery, that of
`Connection.run`.  When the reader meets the end of the stream, nobody is listening, and the nursery is cancelled.  When
the protocol is at its end, the requests are ended, and the connection has some more time for its last bytes.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio
from hypercorn.events import Closed, Event, RawData
from hypercorn.typing import ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr, repr_socket_addr

from runtime.common.log_text import literal
from web.http.transport.byte_queue import ByteQueue
from web.http.transport.context import ConnectionContext
from web.http.transport.idle_timer import IdleTimer
from web.http.transport.loop_share import Turns
from web.http.transport.protocols import ProtocolWrapper
from web.http.transport.task_group import ConnectionTaskGroup
from web.http.transport.writer import Writer, socket_of
from web.process.limits import MAX_UNHANDLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web.http.transport.context import ServerContext
    from web.http.transport.writer import Stream

MAX_RECEIVE = 2**16
"""Bytes that one read takes from the socket at most."""

LINGER_SECONDS = 1.0
"""Seconds in which a client may stop sending before the socket is closed.  A socket that is closed with unread bytes
resets the connection, and the client may lose the answer that says why."""

KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Options of TCP, as far as the system has them.  The kernel notices after 15 + 3 * 5 s that a client has vanished
without a word (power, network).  TCP_KEEPALIVE is macOS's name for TCP_KEEPIDLE."""

_log = logging.getLogger("cede.web")


class Connection:
    """Serves one connection, and ends with it.

    Args:
        server: the context of all connections.
        stream: the client's, with or without TLS.
    """

    def __init__(self, server: ServerContext, stream: Stream) -> None:
        self._server = server
        self._stream = stream
        self._socket = socket_of(stream)
        self._scope = trio.CancelScope()
        self._idle_timer = IdleTimer(server.config.keep_alive_timeout)
        self._tasks = ConnectionTaskGroup(self._idle_timer, server.share)
        self._turns = Turns(server.share, self._idle_timer)
        self._received = ByteQueue()
        self._writer = Writer(
            stream,
            share=server.limits.least_read,
            stall_timeout=server.stall_timeout,
            on_stall=partial(self._tasks.end_requests, stalled=True),
        )
        self._is_closing = False

    async def run(self) -> None:
        """Serve the connection to its end.  No exception but a cancellation leaves this."""
        peer = "a client"
        try:
            peer = repr_socket_addr(self._socket.family, self._socket.getpeername())
            _enable_keepalive(self._socket)
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._writer.run)
                    await self._server.share.turn()
                    await self._server.share.charged(self._serve())
                    nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, or the connection was closed, during a write
        except* Exception as errors:
            why = ", ".join(literal(repr(error)) for error in _leaves(errors))
            _log.warning("connection from %s ended: %s", peer, why)
            _log.debug("traceback of the same error", exc_info=errors)

    async def _serve(self) -> None:
        alpn = None
        if isinstance(self._stream, trio.SSLStream):
            with trio.move_on_after(self._server.config.ssl_handshake_timeout) as timer:
                await self._stream.do_handshake()
                alpn = self._stream.selected_alpn_protocol()
            if timer.cancelled_caught:
                return
        async with self._tasks:
            protocol = ProtocolWrapper(self._context(), alpn)
            await protocol.initiate()
            self._idle_timer.begin()
            self._tasks.spawn(self._close_when_idle)
            self._tasks.spawn(self._handle_received, protocol)
            await self._read()

    def _context(self) -> ConnectionContext:
        family = self._socket.family
        return ConnectionContext(
            server=self._server,
            tasks=self._tasks,
            turns=self._turns,
            state=ConnectionState(LifespanState({**self._server.state})),
            tls=isinstance(self._stream, trio.SSLStream),
            client=parse_socket_addr(family, self._socket.getpeername()),
            local=parse_socket_addr(family, self._socket.getsockname()),
            send=self._on_event,
        )

    # --- from the protocol ------------------------------------------------------------------------------------------

    async def _on_event(self, event: Event) -> None:
        """Do what the protocol says: write bytes and wait until they are written, or end the connection.

        The protocol counts bytes as sent as soon as it has made them (h11's state, HPACK's tables).  And it speaks of
        idleness and of the end in the task of a request, which may have been cancelled already.  So nothing here can
        be cancelled with a request; the task group has a request's cancel point before it begins to send.  The
        connection's own end stops the writer, and with it this wait.
        """
        match event:
            case RawData(data=data):
                self._writer.write_nowait(data)
                if not self._writer.is_idle:
                    with trio.CancelScope(shield=True):
                        await self._writer.join()
            case Closed() if self._is_closing:
                pass  # said again, where more comes behind a last request
            case Closed():
                self._is_closing = True
                self._tasks.end_requests()
                self._tasks.spawn(self._close, LINGER_SECONDS)  # the reader sees it, and ends the rest
            # Hypercorn's Updated is ignored: whether the connection is idle its tasks know.

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read to the end of the stream, whatever the protocol is waiting for; then cancel everything."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self._stream.receive_some(MAX_RECEIVE):
                if self._is_closing:  # read only so that the close does not reset the connection
                    await self._server.share.turn()
                    continue
                self._received.put(data)
                if len(self._received) > MAX_UNHANDLED:
                    await self._wait_until_handled()
        self._scope.cancel(reason="the client has gone")

    async def _wait_until_handled(self) -> None:
        """Wait until all that was read is handled, a stall timeout after each turn: to wait for one is no stall.

        Raises:
            trio.TooSlowError: the protocol waits for something else.
        """
        taken = -1
        while self._turns.is_awaited or taken < self._turns.taken:
            taken = self._turns.taken
            with trio.move_on_after(self._server.stall_timeout) as timer:
                await self._received.join()
            if not timer.cancelled_caught:
                return
        excess = len(self._received)
        raise trio.TooSlowError(f"{excess} bytes went unhandled for {self._server.stall_timeout:g} s")

    async def _handle_received(self, protocol: ProtocolWrapper) -> None:
        """Handle what was read, until the protocol is at its end; what is left then is dropped."""
        await self._server.share.charged(self._handle_all(protocol))
        self._received.close()

    async def _handle_all(self, protocol: ProtocolWrapper) -> None:
        while not self._is_closing:
            await protocol.handle(RawData(await self._received.get()))

    # --- closing ----------------------------------------------------------------------------------------------------

    async def _close_when_idle(self) -> None:
        await self._idle_timer.expired(self._server.worker.terminated.wait)
        await self._close(linger=0)

    async def _close(self, linger: float) -> None:
        """Write what is left, give the client `linger` seconds to close its side, and close."""
        await self._writer.join()
        with trio.move_on_after(self._server.stall_timeout):  # closing a TLS stream is a write, too
            if isinstance(self._stream, trio.SocketStream) and not self._server.worker.terminated.is_set():
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._stream.send_eof()
                await trio.sleep(linger)  # the reader's end of stream cancels this, too
            await self._stream.aclose()


def _enable_keepalive(sock: trio.socket.SocketType) -> None:
    """Let the kernel probe a silent client.  Trio itself sets TCP_NODELAY, which small events need."""
    with suppress(OSError):  # not a TCP socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE_OPTIONS.items():
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group of groups that are not groups themselves."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
