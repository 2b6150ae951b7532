"""HTTP/2 on one connection (RFC 9113) by h2, in place of Hypercorn's `H2Protocol` (DESIGN section 10).

The task of each request sends its own response, a frame at a time, as far as the client has opened its windows.
There is no buffer in which a response could wait or be lost.  h2 may close the connection in any of its calls, so
`_flush`, which follows them all, is the one place that checks for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import h2.events
import h2.exceptions
import trio
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from h2.stream import StreamState
from hypercorn.events import Closed, RawData
from hypercorn.protocol.events import Body, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.utils import filter_pseudo_headers

from web.http.transport.frame_budget import REFUSED, REQUEST, SENT
from web.http.transport.h2_connection import H2Connection

if TYPE_CHECKING:
    from hypercorn.protocol.events import Event as StreamEvent

    from web.http.transport.context import ConnectionContext
    from web.http.transport.task_group import RequestScope

_UNANSWERED = (StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE)
"""States of a stream whose response is not complete."""

_log = logging.getLogger("cede.web")


class Http2Protocol:
    """The protocol of one connection, with the interface that Hypercorn's `TCPServer` expects.

    Args:
        context: of the connection.

    Attributes:
        h2: the state machine.
        windows: where responses wait until the client opens a window.
        sent: bytes of response bodies that were sent, of all streams together.
    """

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._server = context.server
        self.h2 = H2Connection(context.server)
        self._streams: dict[int, HTTPStream] = {}  # those without a complete response
        self.windows = trio.lowlevel.ParkingLot()
        self.sent = 0
        self._client_leaves = False
        self._is_closed = False

    async def initiate(self) -> None:
        """Send the server's settings."""
        self.h2.initiate_connection()
        await self._flush()

    async def handle(self, received: RawData) -> None:
        """Handle received bytes, a turn's worth at a time; what is left when the connection closes is dropped."""
        data, more = received.data, True
        while more and not self._is_closed:
            await self._context.turns.next()
            more = await self._receive(data)
            data = b""

    # --- receiving --------------------------------------------------------------------------------------------------

    async def _receive(self, data: bytes) -> bool:
        """Receive bytes, and return whether some of them are left for another turn.

        A request whose reset came in the same turn is not begun.
        """
        try:
            events = self.h2.receive_some(data)
            resets = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
            for event in events:
                if not isinstance(event, h2.events.RequestReceived) or event.stream_id not in resets:
                    await self._on_h2_event(event)
        except h2.exceptions.DenialOfServiceError as error:
            _log.info("a connection was closed: %s", error)
        except h2.exceptions.ProtocolError:
            pass  # h2 has closed the connection, and has a GOAWAY to send
        self._close_if_done()
        await self._flush()
        return self.h2.is_cut

    async def _on_h2_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                await self._open(event)
            case h2.events.DataReceived(stream_id=stream_id, data=data):
                if stream := self._streams.get(stream_id):  # a response may be complete before the request's body is
                    await stream.handle(Body(stream_id, data))
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream_id)
            case h2.events.StreamEnded(stream_id=stream_id):
                if stream := self._streams.get(stream_id):
                    await stream.handle(EndBody(stream_id))
            case h2.events.StreamReset(stream_id=stream_id):
                await self._drop_stream(stream_id)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self.windows.unpark_all()
            case h2.events.ConnectionTerminated():
                self._client_leaves = True
            # A PriorityUpdated is ignored: RFC 9113, 5.3.2 has deprecated priorities.

    async def _open(self, event: h2.events.RequestReceived) -> None:
        """Start a request, or refuse its stream with a code that says whether it can be sent again (RFC 9113, 8.7)."""
        stream_id = event.stream_id
        headers = dict(event.headers)
        method, path = headers[b":method"].decode("ascii").upper(), headers.get(b":path")
        if self._server.worker.terminated.is_set() or self._is_full():
            self.h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            self.h2.budget.give(REFUSED)
        elif path is None or method == "CONNECT":  # for a tunnel or a web socket, neither of which is served
            self.h2.reset_stream(stream_id, ErrorCodes.PROTOCOL_ERROR)
        else:
            stream = self._streams[stream_id] = self._http_stream(stream_id)
            request_headers = filter_pseudo_headers(event.headers)
            await stream.handle(Request(stream_id, request_headers, "2", method, path, self._context.state))

    def _http_stream(self, stream_id: int) -> HTTPStream:
        context, server = self._context, self._server
        return HTTPStream(
            server.app,
            server.config,
            server.worker,
            context.tasks,
            context.tls,
            context.client,
            context.local,
            self._stream_send,
            stream_id,
        )

    def _is_full(self) -> bool:
        """Return whether a new stream is one too many.

        A stream counts while its body still comes, even if its request has ended.  A request counts until it has ended,
        even if its stream was reset; so a client that resets its streams waits for the requests.
        """
        limit = self._server.limits.streams
        return self.h2.open_inbound_streams > limit or self._context.tasks.request_count >= limit

    # --- sending ----------------------------------------------------------------------------------------------------

    async def _stream_send(self, event: StreamEvent) -> None:
        """Send an event of one request's response.  If its stream can no longer be answered, end the request."""
        stream_id = event.stream_id
        try:
            if isinstance(event, StreamClosed):
                await self._end_response(stream_id)
            elif stream_id in self._streams and not self._is_closed:
                await self._send_event(event)
        except h2.exceptions.ProtocolError:
            await self._drop_stream(stream_id)
            await self._flush()

    async def _send_event(self, event: StreamEvent) -> None:
        match event:
            case Response(stream_id, headers, status):
                server_headers = self._server.config.response_headers("h2")
                self.h2.send_headers(stream_id, [(b":status", b"%d" % status), *headers, *server_headers])
                self.h2.budget.give(REQUEST)
                await self._flush()
            case Body(stream_id, data):
                await self._send_body(stream_id, memoryview(data))
            case EndBody(stream_id):
                self.h2.end_stream(stream_id)
                await self._flush()

    async def _send_body(self, stream_id: int, unsent: memoryview) -> None:
        """Send `unsent` as far as the client's windows allow, and wait for them to open while it takes its share."""
        timer = _StallTimer(self, self._context, len(unsent))
        while unsent:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size, len(unsent))
            if room > 0:
                self.h2.send_data(stream_id, bytes(unsent[:room]))
                unsent = unsent[room:]
                self.sent += room
                self.h2.budget.give(SENT)
                await self._flush()
            elif not await timer.window_opens(len(unsent)):
                self._give_up(stream_id)
            if stream_id not in self._streams:  # the request was ended meanwhile
                return

    def _give_up(self, stream_id: int) -> None:
        """End a request whose reader has stalled.  The end of its response then resets the stream."""
        if stream := self._streams.get(stream_id):
            seconds = self._server.stall_timeout
            _log.warning("a response was given up: its reader took too little for %g s", seconds)
            request: RequestScope = stream.scope["state"]["request_scope"]
            request.end(stalled=True)

    async def _end_response(self, stream_id: int) -> None:
        """Follow the end of a request; reset its stream if the response is not complete, so that the client knows."""
        stream = self.h2.streams.get(stream_id)
        if stream_id in self._streams and stream is not None and stream.state_machine.state in _UNANSWERED:
            self.h2.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)
        await self._drop_stream(stream_id)
        self._close_if_done()
        await self._flush()

    def _close_if_done(self) -> None:
        """Send GOAWAY once either side is leaving and all streams are answered."""
        if not (self._is_closed or self._streams) and (self._client_leaves or self._server.worker.terminated.is_set()):
            self.h2.close_connection()

    async def _drop_stream(self, stream_id: int) -> None:
        """Forget a stream that can no longer be answered, or need not be, and end its request."""
        if stream := self._streams.pop(stream_id, None):
            await stream.handle(StreamClosed(stream_id))
            self.windows.unpark_all()

    async def _flush(self) -> None:
        """Send the bytes that h2 has made; if h2 has closed the connection, end its requests first.

        They come first because a client that does not read may keep the bytes waiting.  `Closed` lets those bytes go
        out before the socket is closed.
        """
        data = self.h2.data_to_send()
        if self.h2.state_machine.state is ConnectionState.CLOSED and not self._is_closed:
            self._is_closed = True
            await self._context.send(Closed())
        if data:
            await self._context.send(RawData(data))


class _StallTimer:
    """Measures how long a response has waited for its client to open a window.

    Time counts only while the window is shut.  It starts anew with each share that the client takes: of this response
    or, where the connection's window is the one that is shut, of all responses together.

    Args:
        protocol: whose windows these are.
        context: of the connection.
        unsent: bytes of the response.
    """

    def __init__(self, protocol: Http2Protocol, context: ConnectionContext, unsent: int) -> None:
        self._protocol = protocol
        self._server = context.server
        self._restart(unsent)

    def _restart(self, unsent: int) -> None:
        self._share = min(unsent, self._server.limits.least_read)
        self._seconds_left = self._server.stall_timeout
        self._unsent_at_start, self._sent_at_start = unsent, self._protocol.sent

    def _is_share_taken(self, unsent: int, *, by_all: bool) -> bool:
        taken = self._protocol.sent - self._sent_at_start if by_all else self._unsent_at_start - unsent
        return taken >= self._share

    async def window_opens(self, unsent: int) -> bool:
        """Wait until a window opens; False if the client took less than its share of `unsent` bytes in time."""
        by_all = self._protocol.h2.outbound_flow_control_window <= 0
        if self._is_share_taken(unsent, by_all=by_all):
            self._restart(unsent)
        began = trio.current_time()
        with trio.move_on_after(max(0, self._seconds_left)) as timer:
            await self._protocol.windows.park()
        self._seconds_left -= trio.current_time() - began
        return not timer.cancelled_caught or self._is_share_taken(unsent, by_all=by_all)
