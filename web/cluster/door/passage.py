"""The application at the front door: whatever it lets through, Dynamo's server answers."""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import trio
from quart_trio.wrappers import TrioResponse as Response
from werkzeug.datastructures import Headers

from runtime.common.log_text import shortened
from runtime.errors import ShuttingDown, Unavailable
from web.bodies.errors.handlers import install_error_handlers
from web.bodies.errors.problem import ErrorShapes
from web.bodies.responses import StreamBody
from web.cluster.door.exchange import OF_ONE_CONNECTION, open_exchange
from web.generation.openai_format.errors import OPENAI_ERRORS
from web.http.asgi import ScopedApp, current_request
from web.http.body_budget import BODY_TIMEOUT, BodyBudget
from web.serving.app import apply_browser_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from werkzeug.routing import Map

    from web.cluster.door.exchange import Exchange
    from web.http.asgi import ScopedRequest
    from web.http.browser_policy import BrowserPolicy
    from web.process.limits import Limits

logger = logging.getLogger("cede.web")

OWN = OF_ONE_CONNECTION | {b"date"}
"""Headers of an answer that its client gets from us, and not as Dynamo wrote them."""

MOST_NAMED = 20  # requests, in a line of the log

DYNAMOS = ("/docs", "/openapi.json")
"""Paths that the control address has as well."""


class ControlPlace(NamedTuple):
    """Where the control address is, to which clients are sent for what is there.

    Attributes:
        routes: that it has.
        port: of the same host.
    """

    routes: Map
    port: int


class Passage:
    """Passes requests on, each on a connection of its own, which ends when the client hangs up.

    Args:
        server: host and port of Dynamo's.
        limits: what clients may take.
        policy: what web pages may ask.
        control: the control address.

    Attributes:
        app: that does so.
    """

    def __init__(
        self, server: tuple[str, int], limits: Limits, policy: BrowserPolicy, control: ControlPlace | None = None
    ) -> None:
        self._server = server
        self._control = control
        self._limits = limits
        self._passing: dict[ScopedRequest, str] = {}
        self._is_closed = False
        self._is_empty = trio.Event()
        app = self.app = ScopedApp("cede-door", static_folder=None)
        app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
        app.bodies = BodyBudget(limits.bodies_bytes)
        install_error_handlers(app, ErrorShapes(OPENAI_ERRORS, ()))
        apply_browser_policy(app, policy)
        app.before_request(self._pass_on)  # before any route is looked for: there are none here

    async def drain(self, grace: float) -> None:
        """Refuse further requests, and let the others end within `grace` seconds; the log names those that do not."""
        self._is_closed = True
        if self._passing:
            with trio.move_on_after(grace):
                await self._is_empty.wait()
        if self._passing:
            more = [f"and {len(self._passing) - MOST_NAMED} more"] if len(self._passing) > MOST_NAMED else []
            left = ", ".join([*map(shortened, islice(self._passing.values(), MOST_NAMED)), *more])
            logger.error("these have not ended within %g s (--grace), and are cut off: %s", grace, left)

    async def _pass_on(self) -> Response:
        request = current_request()
        if self._is_closed:
            raise ShuttingDown("The front door is shutting down.", retry_after=1)
        if (place := self._elsewhere(request)) is not None:
            return Response(f"A cluster says this at its control address: {place}\n", 307, {"location": place})
        if len(self._passing) >= self._limits.connections:  # over HTTP/2 they may be more than clients
            raise Unavailable("The front door passes as many requests on as it can (--max-connections).", retry_after=1)
        request.resources.enter_context(self._counted(request))
        body, headers = await request.body.read(BODY_TIMEOUT), list(request.scope["headers"])
        if request.method == "POST":
            headers = as_json(headers)
            if names_no_model(body) and (model := await self._only_model()) is not None:
                body = with_model(body, model)
        exchange = await request.resources.enter_async_context(open_exchange(self._server, self._limits.write_bytes))
        head = await exchange.ask(request.method, target_of(request), headers, body)
        request.body.reservation.release()
        kept = Headers([(name.decode(), value.decode("latin-1")) for name, value in head.headers if name not in OWN])
        return Response(Answer(exchange), head.status_code, kept)

    async def _only_model(self) -> str | None:
        """The model of all workers; None where they have several, or none is known."""
        async with open_exchange(self._server, self._limits.write_bytes) as exchange:
            await exchange.ask("GET", b"/v1/models", [], b"")
            return only_model(json.loads(b"".join([piece async for piece in Answer(exchange)])))

    def _elsewhere(self, request: ScopedRequest) -> str | None:
        """Return the URL of what the control address has; None for what is here."""
        if self._control is None or request.path.startswith(DYNAMOS):
            return None
        if not self._control.routes.bind("").test(request.path, request.method):
            return None
        host = re.sub(r":\d+$", "", request.host) or "127.0.0.1"
        return f"http://{host}:{self._control.port}{target_of(request).decode('latin-1')}"

    @contextmanager
    def _counted(self, request: ScopedRequest) -> Iterator[None]:
        """Keep a request among those that are passing, to the end of its answer."""
        self._passing[request] = f"{request.method} {request.path}"
        try:
            yield
        finally:
            del self._passing[request]
            if not self._passing:
                self._is_empty.set()
                self._is_empty = trio.Event()


class Answer(StreamBody):
    """The body of an answer, as it comes."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __anext__(self) -> bytes:
        """Return what has come since, and wait for some."""
        if piece := await self._exchange.receive():
            return piece
        raise StopAsyncIteration


def target_of(request: ScopedRequest) -> bytes:
    """Return what is asked for, path and query, as the client wrote them."""
    raw: bytes = request.scope.get("raw_path") or b""
    path = raw.partition(b"?")[0]
    if not path.startswith(b"/"):  # such as a whole URL
        path = quote(request.path).encode()
    return b"?".join(filter(None, (path, request.scope["query_string"])))


# --- what a request may leave out at `cede serve`, and Dynamo's server wants to have: its content type, and its model -

CURLS = b"application/x-www-form-urlencoded"
"""The content type that curl gives to whatever it is to send."""

_FIRST_KEY = re.compile(rb'\s*\{(?=\s*")')


def as_json(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a body that is JSON, where nothing else is said of it."""
    kept = [(name, value) for name, value in headers if (name, value) != (b"content-type", CURLS)]
    return kept if any(name == b"content-type" for name, _ in kept) else [*kept, (b"content-type", b"application/json")]


def names_no_model(body: bytes) -> bool:
    """Return whether it is an object that has no such key, nor one that is further inside; it is not parsed."""
    return b'"model"' not in body and _FIRST_KEY.match(body) is not None


def with_model(body: bytes, model: str) -> bytes:
    """Return a body that names a model and did not before (`names_no_model`)."""
    return _FIRST_KEY.sub(lambda begun: begun[0] + f'"model": {json.dumps(model)}, '.encode(), body, count=1)


def only_model(listed: Any) -> str | None:  # noqa: ANN401  # JSON
    """Return the model of a list that has one; None where it has several, so that one has to be named, or none."""
    ids = [model["id"] for model in listed["data"]]
    return ids[0] if len(ids) == 1 else None
