"""HTTP/2 on one connection, by h2, in place of Hypercorn's `H2Protocol` (DESIGN section 10 says why).

Each request's task sends its own response, a frame at a time as far as the client has opened its windows; there is no
buffer that a response could wait in, and be lost in.  After all that h2 has done, `_flush` looks whether it has closed
the connection: one place, for whatever the reason was.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import trio
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from h2.stream import StreamState
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.utils import filter_pseudo_headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn import Config
    from hypercorn.events import Event
    from hypercorn.protocol.events import Event as StreamEvent
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper
    from hypercorn.typing import ConnectionState as State
    from hyperframe.frame import Frame, GoAwayFrame

    from web.http.transport.task_group import ConnectionTaskGroup, RequestScope
    from web.limits import Limits

SLICE = 2**12
"""Bytes that h2 is given at a time, 4 KiB: some hundred of the smallest frames, a few milliseconds."""

_UNANSWERED = (StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE)

_log = logging.getLogger("cede.web")


class Http2Protocol:
    """One connection's protocol, as Hypercorn's `TCPServer` uses it."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        requests: ConnectionTaskGroup,
        state: State,
        ssl: bool,
        client: tuple[str, int] | None,
        server: tuple[str, int] | None,
        send: Callable[[Event], Awaitable[None]],
        limits: Limits,
        stall_timeout: float,
    ) -> None:
        self._config = config
        self._context = context
        self._requests = requests
        self._state = state
        self._stream_arguments = (app, config, context, requests, ssl, client, server)
        self._send = send
        self.limits = limits
        self.stall_timeout = stall_timeout
        self.h2 = _connection(config, limits)
        self._streams: dict[int, HTTPStream] = {}  # those that are not yet answered
        self.windows = trio.lowlevel.ParkingLot()  # where responses wait for one to open
        self.sent = 0  # bytes of bodies, of all streams
        self._client_leaves = False
        self._is_over = False

    async def initiate(self) -> None:
        """Send the settings."""
        self.h2.initiate_connection()
        await self._flush()

    async def handle(self, received: RawData) -> None:
        """Take received bytes."""
        for start in range(0, len(received.data), SLICE):
            await self._receive(received.data[start : start + SLICE])
            await trio.lowlevel.checkpoint()

    # --- what comes --------------------------------------------------------------------------------------

    async def _receive(self, data: bytes) -> None:
        if self._is_over:
            return
        with suppress(h2.exceptions.ProtocolError):  # h2 has closed the connection, and has a GOAWAY to send
            for event in self.h2.receive_data(data):
                await self._react(event)
        self._close_if_done()
        await self._flush()

    async def _react(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                await self._open(event)
            case h2.events.DataReceived(stream_id=stream_id, data=data):
                if stream := self._streams.get(stream_id):  # or it was answered before its body had come, as is legal
                    await stream.handle(Body(stream_id, data))
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream_id)
            case h2.events.StreamEnded(stream_id=stream_id):
                if stream := self._streams.get(stream_id):
                    await stream.handle(EndBody(stream_id))
            case h2.events.StreamReset(stream_id=stream_id):
                await self._forget(stream_id)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self.windows.unpark_all()
            case h2.events.ConnectionTerminated():
                self._client_leaves = True
        # A PriorityUpdated has no meaning any more (RFC 9113), and no order to send in.

    async def _open(self, event: h2.events.RequestReceived) -> None:
        """Start a request, or refuse it in a way that says that it can be sent again."""
        stream_id = event.stream_id
        headers = dict(event.headers)
        method, path = headers[b":method"].decode("ascii").upper(), headers.get(b":path")
        if self._context.terminated.is_set() or self._is_full():
            self.h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
        elif path is None or method == "CONNECT":  # a tunnel, or a web socket
            self.h2.reset_stream(stream_id, ErrorCodes.PROTOCOL_ERROR)
        else:
            stream = self._streams[stream_id] = HTTPStream(*self._stream_arguments, self._stream_send, stream_id)
            asked = filter_pseudo_headers(event.headers)
            await stream.handle(Request(stream_id, asked, "2", method, path, self._state))
            await self._send(Updated(idle=False))

    def _is_full(self) -> bool:
        """Whether a stream is one too many: those count, too, whose request has ended and whose body still comes.

        And requests, so that a client which resets its streams waits until their requests have ended.
        """
        return self.h2.open_inbound_streams > self.limits.streams or len(self._requests) >= self.limits.streams

    # --- what goes ---------------------------------------------------------------------------------------

    async def _stream_send(self, event: StreamEvent) -> None:
        """Send what one request says.  One that cannot be answered any more is ended by then, or is now."""
        stream_id = event.stream_id
        try:
            if isinstance(event, StreamClosed):
                await self._end(stream_id)
            elif stream_id in self._streams and not self._is_over:
                await self._say(event)
        except h2.exceptions.ProtocolError:
            await self._forget(stream_id)
            await self._flush()

    async def _say(self, event: StreamEvent) -> None:
        match event:
            case Response(stream_id, headers, status):
                ours = self._config.response_headers("h2")
                self.h2.send_headers(stream_id, [(b":status", b"%d" % status), *headers, *ours])
                await self._flush()
            case Body(stream_id, data):
                await self._send_body(stream_id, memoryview(data))
            case EndBody(stream_id):
                self.h2.end_stream(stream_id)
                await self._flush()

    async def _send_body(self, stream_id: int, unsent: memoryview) -> None:
        """Send what the client's windows have room for, and wait for more, as long as it takes its share."""
        clock = _StallTimer(self, len(unsent))
        while unsent:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size, len(unsent))
            if room > 0:
                self.h2.send_data(stream_id, bytes(unsent[:room]))
                unsent = unsent[room:]
                self.sent += room
                await self._flush()
            elif not await clock.window_opens(len(unsent)):
                self._give_up(stream_id)
            if stream_id not in self._streams:  # it was ended meanwhile
                return

    def _give_up(self, stream_id: int) -> None:
        """End a request, whose response's end then resets its stream."""
        if stream := self._streams.get(stream_id):
            _log.warning("a response was given up: its reader took too little for %g s", self.stall_timeout)
            request: RequestScope = stream.scope["state"]["request_scope"]
            request.stalled = True
            request.end()

    async def _end(self, stream_id: int) -> None:
        """A request has ended; where that was not by its response's end, its client is told."""
        stream = self.h2.streams.get(stream_id)
        if stream_id in self._streams and stream is not None and stream.state_machine.state in _UNANSWERED:
            self.h2.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)
        await self._forget(stream_id)
        self._close_if_done()
        await self._flush()
        await self._send(Updated(idle=not self._streams))

    def _close_if_done(self) -> None:
        """Say goodbye, where either side is leaving and all is answered."""
        if not (self._is_over or self._streams) and (self._client_leaves or self._context.terminated.is_set()):
            self.h2.close_connection()

    async def _forget(self, stream_id: int) -> None:
        """End the request that can be answered on this stream no more, or need not."""
        if stream := self._streams.pop(stream_id, None):
            await stream.handle(StreamClosed(stream_id))
            self.windows.unpark_all()

    async def _flush(self) -> None:
        """Send what h2 has to say; where that was its last word, end what the connection stands for, and first.

        First, because a client that does not read may keep the bytes waiting.  `Closed` lets them go before it closes.
        """
        data = self.h2.data_to_send()
        if self.h2.state_machine.state is ConnectionState.CLOSED and not self._is_over:
            self._is_over = True
            await self._send(Closed())
        if data:
            await self._send(RawData(data))


class _StallTimer:
    """How long a response has waited for its client to open a window.

    Time counts only while it is shut, and starts anew with each share that is taken: of this response or, where it is
    the connection's window that is shut, of all that share it.
    """

    def __init__(self, protocol: Http2Protocol, unsent: int) -> None:
        self._protocol = protocol
        self._start(unsent)

    def _start(self, unsent: int) -> None:
        self._share = min(unsent, self._protocol.limits.least_read)
        self._left = self._protocol.stall_timeout
        self._own, self._all = unsent, self._protocol.sent

    def _is_taken(self, unsent: int, *, by_all: bool) -> bool:
        return (self._protocol.sent - self._all if by_all else self._own - unsent) >= self._share

    async def window_opens(self, unsent: int) -> bool:
        """Wait for it while `unsent` bytes do; False where the client took too little for too long."""
        by_all = self._protocol.h2.outbound_flow_control_window <= 0
        if self._is_taken(unsent, by_all=by_all):
            self._start(unsent)
        began = trio.current_time()
        with trio.move_on_after(max(0, self._left)) as clock:
            await self._protocol.windows.park()
        self._left -= trio.current_time() - began
        return not clock.cancelled_caught or self._is_taken(unsent, by_all=by_all)


class _Connection(h2.connection.H2Connection):
    """h2's; but a client that says that it will leave has not left, and its streams are answered (RFC 9113)."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        if frame.error_code != ErrorCodes.NO_ERROR:
            return super()._receive_goaway_frame(frame)
        return [], [h2.events.ConnectionTerminated()]


class _Settings(h2.settings.Settings):
    """Ours.  h2 ends the connection of a client that opens a stream too many; here that stream is refused (`_open`)."""

    @property  # type: ignore[misc]  # nothing sets it
    def max_concurrent_streams(self) -> int:
        return 2**31


def _connection(config: Config, limits: Limits) -> _Connection:
    connection = _Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    offered = {
        h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
        h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: config.h2_max_header_list_size,
    }
    connection.local_settings = _Settings(client=False, initial_values=offered)
    return connection
