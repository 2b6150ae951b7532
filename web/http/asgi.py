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

from actors.core.receipts import CancelReason
from web.http.body_budget import BodyBudget, BodyReservation, ReservedBody

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

    from web.http.transport.task_group import RequestScope

logger = logging.getLogger("cede.web")


class ScopedRequest(TrioRequest):
    """A request that can hold what must live until its response was sent."""

    body_class = ReservedBody
    body: ReservedBody
    resources: AsyncExitStack
    generation_id: str | None = None  # set once known; the response's `x-request-id`
    problem: str = ""  # what its error object says

    @property
    def request_scope(self) -> RequestScope | None:
        """The way back to its client; absent under Quart's test client."""
        return cast("RequestScope | None", self.scope.get("state", {}).get("request_scope"))

    def disconnect_reason(self) -> CancelReason:
        """Why the client is gone, if it is: those that are cut for reading nothing are marked."""
        stalled = self.request_scope is not None and self.request_scope.stalled
        return CancelReason.STALLED_READER if stalled else CancelReason.DISCONNECT


class ScopedConnection(TrioASGIHTTPConnection):
    """One request from its first byte to its response's last."""

    app: ScopedApp

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """As the parent's, with the room that the request's body takes."""
        with BodyReservation(self.app.bodies) as self._reservation:
            await super().__call__(receive, send)

    def _create_request_from_scope(self, send: ASGISendCallable) -> ScopedRequest:
        try:
            made = super()._create_request_from_scope(send)
        except ValueError:  # a target such as `http://[x/`: not a path, and not a URL that has one
            self.scope["path"] = f"/{self.scope['path']}"
            made = super()._create_request_from_scope(send)
        request = cast("ScopedRequest", made)
        request.body.reserve_from(self._reservation)
        return request

    async def handle_request(  # type: ignore[override]  # the parent overrides its own parent in this way
        self, nursery: trio.Nursery, request: ScopedRequest, send: ASGISendCallable
    ) -> None:
        """As the parent's, inside the request's exit stack and without a time limit on the response.

        A response lasts as long as it lasts; the connection guard cuts those that make no progress, and a reader that
        leaves too much unread is given up (`actors.generating.unread`).
        """
        try:
            async with AsyncExitStack() as request.resources:
                response = await self.app.handle_request(request)
                await self._send_response(send, response)
        except* trio.TooSlowError as slow:
            logger.warning("a response was given up: %s", slow.exceptions[0])
        except* Exception as errors:  # beside a cancel, too, where quart-trio would lose them; Cancelled goes on
            logger.error("a response failed after its handler had returned", exc_info=errors)
        nursery.cancel_scope.cancel()


class ScopedApp(QuartTrio):
    """A QuartTrio whose requests are `ScopedRequest`s, whose bodies share one room."""

    bodies: BodyBudget
    asgi_http_class = ScopedConnection
    request_class = ScopedRequest


def current_request() -> ScopedRequest:
    """The request that this task's handler serves."""
    return cast("ScopedRequest", cast("Any", request)._get_current_object())
