"""The ASGI side of one HTTP request: handler and response share one task, and one exit stack.

Quart sends a response after its handler has returned, so a scope of the handler's is gone by then.  A scope that is
opened in the handler and closed by the response's body would never be closed if the client left in between, while the
headers are being sent.  So here an exit stack surrounds both.  What must outlive the handler is entered into
`ScopedRequest.resources`, and is left in the same task, in order, whatever happens: the response was sent, the client
went away, an exception.  Errors of admission stay ordinary HTTP errors.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, ExitStack, nullcontext
from typing import TYPE_CHECKING, cast

import trio
from quart.globals import request_ctx
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest
from structlog.contextvars import bind_contextvars

from actors.core.generation import TraceContext
from actors.core.receipts import CancelReason
from web.http.body_budget import BodyBudget, BodyReservation, BudgetedBody

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

    from actors.core.generation import GenerationRequest
    from web.http.transport.task_group import RequestScope
    from web.process.access.api_keys import ApiKey
    from web.process.access.usage import Permit

logger = logging.getLogger("cede.web")


class ScopedRequest(TrioRequest):
    """A request with resources that live until its response is sent.

    Attributes:
        body: the request's body.
        resources: what is entered here is left after the response.
        problem: the message of the response's error object, for the log.
        key: the API key that was sent; None where there are no keys.
        admission: what the key has in use while this is being served, to be entered; None where there are no keys.
    """

    body_class = BudgetedBody
    body: BudgetedBody
    resources: AsyncExitStack
    problem: str = ""
    key: ApiKey | None = None
    admission: AbstractContextManager[Permit] | None = None
    _generation_id: str | None = None
    _permit: Permit | None = None
    _taken: ExitStack | None = None

    @property
    def generation_id(self) -> str | None:
        """The id of the engine's request, once there is one; it becomes the response's `x-request-id`.

        Setting it puts it into each line of the log that this request's task writes from then on.
        """
        return self._generation_id

    @generation_id.setter
    def generation_id(self, name: str) -> None:
        self._generation_id = name
        bind_contextvars(request_id=name)

    @property
    def owner(self) -> str | None:
        """The name of the API key that was sent, which is whose the request is; None where there are no keys."""
        return None if self.key is None else self.key.name

    @property
    def request_scope(self) -> RequestScope | None:
        """The scope in which the connection runs the request; None under Quart's test client."""
        return cast("RequestScope | None", self.scope.get("state", {}).get("request_scope"))

    @property
    def trace(self) -> TraceContext | None:
        """The trace that the client says it belongs to; None where it says nothing."""
        parent = self.headers.get("traceparent")
        return None if parent is None else TraceContext(parent, self.headers.get("tracestate", ""))

    @property
    def queue_share(self) -> float:
        """Share of the queue that whoever asks may take, from 0 to 1."""
        share = None if self.key is None else self.key.limits.queue_share
        return 1.0 if share is None else share

    @property
    def weight(self) -> float:
        """The weight of whoever asks, among those of the same priority."""
        weight = None if self.key is None else self.key.limits.weight
        return 1.0 if weight is None else weight

    def claim_permit(self) -> None:
        """Take one of the places that the key has, once, until the response is sent.

        Raises:
            RateLimited: the key's limits are reached.
        """
        if self.admission is not None:
            admission, self.admission = self.admission, None
            self._taken = self.resources.enter_context(ExitStack())
            self._permit = self._taken.enter_context(admission)

    def reservation(self, asked: GenerationRequest, context: int) -> AbstractContextManager[None]:
        """Return the scope in which the tokens are set aside that the engine's request may take of the key's.

        Args:
            asked: the engine's request.
            context: tokens of the model's.

        Raises:
            RateLimited: when the scope is entered; the key has not so many left.
        """
        return nullcontext() if self._permit is None else self._permit.reserve(asked, context)

    def hand_over_permit(self) -> ExitStack:
        """Return the place that was claimed, for what goes on when the response is sent, and is to leave it then."""
        return ExitStack() if self._taken is None else self._taken.pop_all()

    def disconnect_reason(self) -> CancelReason:
        """Return why the client is gone, if it is gone."""
        stalled = self.request_scope is not None and self.request_scope.stalled
        return CancelReason.STALLED_READER if stalled else CancelReason.DISCONNECT


class ScopedConnection(TrioASGIHTTPConnection):
    """One request from its first byte to the last byte of its response."""

    app: ScopedApp

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve the request, with a reservation for its body; the handler runs in this task."""
        with BodyReservation(self.app.bodies) as self._reservation:
            request = self._create_request_from_scope(send)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.handle_messages, nursery, request, receive)
                await self.handle_request(nursery, request, send)

    def _create_request_from_scope(self, send: ASGISendCallable) -> ScopedRequest:
        # Before anybody looks at it: `/v1/models/` is served as `/v1/models`, whatever is decided by the path.
        self.scope["path"] = self.scope["path"].removesuffix("/") or "/"
        try:
            made = super()._create_request_from_scope(send)
        except ValueError:  # a target such as `http://[x/`: not a path, and not a URL that has one
            self.scope["path"] = f"/{self.scope['path']}"
            made = super()._create_request_from_scope(send)
        request = cast("ScopedRequest", made)
        request.body.reserve_from(self._reservation)
        request.body.packed_as(request.headers.get("content-encoding", ""))
        return request

    async def handle_request(  # type: ignore[override]  # the parent overrides its own parent in this way
        self, nursery: trio.Nursery, request: ScopedRequest, send: ASGISendCallable
    ) -> None:
        """Run the handler and send its response, inside the request's exit stack.

        There is no time limit on a response.  The connection cuts a reader that takes too little, and a request whose
        reader leaves too much unread is given up (`actors.generating.unread`).
        """
        try:
            async with AsyncExitStack() as request.resources:
                response = await self.app.handle_request(request)
                await self._send_response(send, response)
        except* trio.TooSlowError as slow:
            logger.warning("a response was given up: %s", slow.exceptions[0])
        except* Exception as errors:  # also one beside a cancel, which quart-trio would lose; Cancelled goes on
            logger.error("a response failed after its handler had returned", exc_info=errors)
        nursery.cancel_scope.cancel()


class ScopedApp(QuartTrio):
    """A Quart application whose requests are `ScopedRequest`s.

    Attributes:
        bodies: the budget that all request bodies share.
    """

    bodies: BodyBudget
    asgi_http_class = ScopedConnection
    request_class = ScopedRequest


def current_request() -> ScopedRequest:
    """Return the request that this task's handler serves."""
    return cast("ScopedRequest", request_ctx.request)
