"""The ASGI side of one HTTP request: handler and response share one task, and one exit stack.

Quart sends a response after its handler has returned, so a scope of the handler's is gone by then.  A scope
that is opened in the handler and closed by the response's body would never be closed if the client left in
between, while the headers are being sent.  So here an exit stack surrounds both: what must outlive the
handler is entered into `request.resources`, and is left in the same task, in order, whatever happens (the
response was sent, the client went away, an exception).  Admission errors stay ordinary HTTP errors, and
nothing can leak.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import trio
from quart import request
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest

from actors.receipts import CancelReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypercorn.typing import ASGISendCallable, ASGISendEvent

    from web.guard import Connection

logger = logging.getLogger("cede.web")

SLICE = 2**14  # bytes of a body that are sent at a time


class ScopedRequest(TrioRequest):
    """A request that can hold what must live until its response was sent."""

    resources: AsyncExitStack
    generation_id: str | None = None  # set once known; the response's `x-request-id`
    problem: str = ""  # what its error object says

    @property
    def connection(self) -> Connection | None:
        """The connection it came on; absent under Quart's test client."""
        return cast("Connection | None", self.scope.get("state", {}).get("connection"))

    def disconnect_reason(self) -> CancelReason:
        """Why the client is gone, if it is: those that are cut for reading nothing are marked."""
        stalled = self.connection is not None and self.connection.stalled
        return CancelReason.STALLED_READER if stalled else CancelReason.DISCONNECT


def with_clock(send: ASGISendCallable, connection: Connection) -> ASGISendCallable:
    """`send`, given up when a slice of a body is not taken within the connection's stall timeout.

    The guard sees to readers that take nothing from their socket.  One that reads the socket but opens no HTTP/2 window
    looks alive to it; its request waits in here.
    """

    async def send_clocked(message: ASGISendEvent) -> None:
        for part in _slices(message):
            with trio.move_on_after(connection.stall_timeout) as clock:
                await send(part)
            if clock.cancelled_caught:
                connection.stalled = True
                raise trio.TooSlowError(f"its reader took nothing for {connection.stall_timeout:g} s")

    return send_clocked


def _slices(message: ASGISendEvent) -> Iterator[ASGISendEvent]:
    """A message whose body is long, in several, so that each that is taken is progress."""
    body = message.get("body", b"") if message["type"] == "http.response.body" else b""
    if len(body) <= SLICE:
        yield message
        return
    for start in range(0, len(body), SLICE):
        more = message.get("more_body", False) or start + SLICE < len(body)
        yield cast("ASGISendEvent", {**message, "body": body[start : start + SLICE], "more_body": more})


class ScopedConnection(TrioASGIHTTPConnection):
    """One request from its first byte to its response's last."""

    def _create_request_from_scope(self, send: ASGISendCallable) -> ScopedRequest:
        try:
            made = super()._create_request_from_scope(send)
        except ValueError:  # a target such as `http://[x/`: not a path, and not a URL that has one
            self.scope["path"] = f"/{self.scope['path']}"
            made = super()._create_request_from_scope(send)
        return cast("ScopedRequest", made)

    async def handle_request(  # type: ignore[override]  # the parent overrides its own parent in this way
        self, nursery: trio.Nursery, request: ScopedRequest, send: ASGISendCallable
    ) -> None:
        """As the parent's, inside the request's exit stack and without a time limit on the response.

        A response lasts as long as it lasts; the connection guard cuts those that make no progress.
        """
        try:
            async with AsyncExitStack() as request.resources:
                response = await self.app.handle_request(request)
                if request.connection is not None and request.http_version == "2":
                    send = with_clock(send, request.connection)
                await self._send_response(send, response)
        except* trio.TooSlowError as slow:
            logger.warning("a response was given up: %s", slow.exceptions[0])
        except* Exception as errors:  # beside a cancel, too, where quart-trio would lose them; Cancelled goes on
            logger.error("a response failed after its handler had returned", exc_info=errors)
        nursery.cancel_scope.cancel()


class ScopedApp(QuartTrio):
    """A QuartTrio whose requests are `ScopedRequest`s."""

    asgi_http_class = ScopedConnection
    request_class = ScopedRequest


def current_request() -> ScopedRequest:
    """The request that this task's handler serves."""
    return cast("ScopedRequest", cast("Any", request)._get_current_object())
