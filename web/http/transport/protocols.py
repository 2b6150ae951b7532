"""The protocol of a connection: Hypercorn's HTTP/1.1 without upgrades, or HTTP/2 (`web.http.transport.http2`)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import h11
import trio
from hypercorn.events import RawData
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol

from web.http.transport.frame_budget import FrameBudget
from web.http.transport.http2 import Http2Protocol

if TYPE_CHECKING:
    from hypercorn.events import Event
    from hypercorn.protocol.events import Event as StreamEvent

    from web.http.transport.context import ConnectionContext, ServerContext


TURN_EVENTS = 16
"""Events that are handled in one turn at most: pieces of a body.  A request begins a turn of its own."""


CRUMB = 16
"""Bytes of a piece of a body from which on it brings something: most of a smaller one is what stands around it."""

_ODD_LINE = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""Matches the end of a line without its CR, and a line that goes on in the next: some parsers see other lines there."""


class H11Connection(h11.Connection):
    """h11's, but that it gives out events for one turn at a time, and says whose end is doubtful.

    Bytes behind a request that is to be the last one are ignored (RFC 9112, 9.6).  To h11 they are an error, which
    Hypercorn would answer with a 400 in place of what the request is to get.

    Attributes:
        is_cut: whether the last turn ended before the events did.
        is_doubtful: whether the latest request's head may be understood otherwise by a proxy, so that what comes behind
            it may not be a request: it has a length and chunks, of which h11 takes the chunks (RFC 9112, 6.3), or lines
            of an odd form.  What is doubtless wrong h11 refuses.
    """

    def __init__(self, server: ServerContext) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=server.config.h11_max_incomplete_size)
        self._left = 0
        self._budget = FrameBudget(trio.current_time())
        self.is_cut = self.is_doubtful = False

    def begin_turn(self) -> None:
        """Let more events be given out."""
        self._left, self.is_cut = TURN_EVENTS, False

    def receive_data(self, data: bytes) -> None:
        """Take bytes, unless no request can come any more."""
        if self.their_state is not h11.MUST_CLOSE:
            super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event; none comes behind the last request, nor when the turn is over.

        Raises:
            h11.RemoteProtocolError: what came is wrong, or it is a body in crumbs without an end.
        """
        if self.their_state is h11.MUST_CLOSE:
            return h11.NEED_DATA
        if self._left <= 0:
            self.is_cut = True
            return h11.NEED_DATA
        self._left -= 1
        before, _ = self.trailing_data if self.their_state is h11.IDLE else (b"", False)
        event = super().next_event()
        if event is h11.PAUSED:  # what comes behind it is another request's
            self._left = 0
        elif isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            framings = {name for name, _ in event.headers} & {b"content-length", b"transfer-encoding"}
            self.is_doubtful = len(framings) > 1 or _ODD_LINE.search(head) is not None
        elif isinstance(event, h11.Data) and len(event.data) < CRUMB and not self._budget.take(1, trio.current_time()):
            self._process_error(self.their_role)
            raise h11.RemoteProtocolError("a body in too many crumbs", error_status_hint=400)
        return event


class Http1Protocol(H11Protocol):
    """HTTP/1.1 by h11, as Hypercorn has it, but for upgrades, early responses, and what comes behind a last request.

    A server may ignore an upgrade.  To HTTP/2 there is none any more (RFC 9113, 3.1), and web sockets are not served.
    """

    def __init__(self, context: ConnectionContext) -> None:
        server = context.server
        super().__init__(
            server.app,
            server.config,
            server.worker,
            context.tasks,
            context.state,
            context.tls,
            context.client,
            context.local,
            context.send,
        )
        self._turns = context.turns
        self.connection: H11Connection = H11Connection(server)

    async def handle(self, event: Event) -> None:
        """Handle received bytes, a turn's worth at a time."""
        if not isinstance(event, RawData):
            await super().handle(event)
            return
        self.connection.receive_data(event.data)
        more = True
        while more:
            await self._turns.next()
            self.connection.begin_turn()
            await self._handle_events()
            more = self.connection.is_cut

    async def stream_send(self, event: StreamEvent) -> None:
        """Send a part of a response; one that does not wait for the request's body says that the connection ends.

        It does end then, since what comes next would be the rest of that body.  A client that is not told sends its
        next request, and loses it (RFC 9112, 9.6).  It ends, too, where the request's own end is doubtful.
        """
        is_last = self.connection.their_state is h11.SEND_BODY or self.connection.is_doubtful
        if isinstance(event, Response) and event.status_code >= 200 and is_last:
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    async def _check_protocol(self, event: h11.Request) -> None:
        """Raise H2ProtocolAssumedError where the client begins with the preface of HTTP/2 (RFC 9113, 3.4)."""
        if (event.method, event.target, event.http_version) == (b"PRI", b"*", b"2.0"):
            rest, _ = self.connection.trailing_data
            raise H2ProtocolAssumedError(b"PRI * HTTP/2.0\r\n\r\n" + rest)

    async def _create_stream(self, request: h11.Request) -> None:
        """Start a request without its `Upgrade` header, which Hypercorn would follow."""
        headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
        if len(headers) < len(request.headers):  # a request that is made again is checked again, all of it
            request = h11.Request(
                method=request.method, target=request.target, headers=headers, http_version=request.http_version
            )
        await super()._create_stream(request)


class ProtocolWrapper:
    """The protocol of one connection, which changes to HTTP/2 where the client speaks it without negotiation.

    Args:
        context: passed on to the protocol.
        alpn: the protocol that TLS negotiated, such as `h2`; None without TLS.
    """

    def __init__(self, context: ConnectionContext, alpn: str | None) -> None:
        self._context = context
        self._current = Http2Protocol(context) if alpn == "h2" else Http1Protocol(context)

    async def initiate(self) -> None:
        """Send what the protocol sends first."""
        await self._current.initiate()

    async def handle(self, received: RawData) -> None:
        """Handle received bytes."""
        try:
            await self._current.handle(received)
        except H2ProtocolAssumedError as assumed:
            data = assumed.data
        else:
            return
        self._current = Http2Protocol(self._context)
        await self._current.initiate()
        await self._current.handle(RawData(data))
