"""The HTTP application over an engine: the API's routes, the engine's state, and who may use them.

Nothing in here outlives a request.  Another API is added beside OpenAI's in `create_app`.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

import trio
from quart import request as query
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import NotFound, RequestError
from runtime.log_text import literal
from web.bodies.json_encoding import LazyJsonArray
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response
from web.errors.handlers import install_error_handlers
from web.errors.problem import Problem
from web.errors.shapes import ErrorShapes
from web.http.asgi import ScopedApp, current_request
from web.http.body_budget import BodyBudget
from web.http.browser_policy import BrowserPolicy, preflight_headers
from web.limits import Limits
from web.openai.errors import OpenAIErrors, error_object
from web.openai.routes import add_routes as add_openai_routes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import DataclassInstance

    from actors.diagnostics.loop_watch import LoopWatch
    from actors.engine import Engine
    from web.access.api_keys import KeyRing

logger = logging.getLogger("cede.web")

ERROR_SHAPES = ErrorShapes(OpenAIErrors())
"""Whose error objects a request gets, whatever is wrong with it."""


def create_app(
    engine: Engine,
    *,
    keys: KeyRing | None = None,
    browser_policy: BrowserPolicy | None = None,
    limits: Limits | None = None,
    watch: LoopWatch | None = None,
    keep_alive: float = 10.0,
) -> ScopedApp:
    """Make the application that serves `engine`.

    Args:
        engine: open.
        keys: API keys, one of which a client has to have; none to serve everybody.
        browser_policy: which web pages are served beside those that always are.
        limits: what clients may take of the server.
        watch: of the event loop; the statistics have what it has seen.
        keep_alive: seconds of silence after which a stream gets a comment.
    """
    app = ScopedApp("cede", static_folder=None)
    limits = limits or Limits()
    app.config["MAX_CONTENT_LENGTH"] = limits.body_bytes
    app.bodies = BodyBudget(limits.bodies_bytes)
    install_error_handlers(app, ERROR_SHAPES)
    app.after_request(_finish_response)
    _apply_browser_policy(app, browser_policy or BrowserPolicy())
    if keys:
        _require_key(app, keys)
    add_openai_routes(app, engine, write_bytes=limits.write_bytes, keep_alive=keep_alive)
    _add_inspection_routes(app, engine, limits.write_bytes, watch)
    return app


async def _finish_response(response: Response) -> Response:
    """Add the request's id, and log the response."""
    http_request = current_request()
    if http_request.generation_id:
        response.headers["x-request-id"] = http_request.generation_id
    failed = response.status_code >= 400
    logger.log(
        logging.INFO if failed else logging.DEBUG,
        "%s: %d %s",
        literal(f"{http_request.method} {http_request.path}"),
        response.status_code,
        literal(http_request.problem) if failed else http_request.generation_id or "-",
    )
    return response


def _apply_browser_policy(app: ScopedApp, policy: BrowserPolicy) -> None:
    @app.before_request
    async def check_browser() -> Response | None:
        """Refuse before the body is read, and before a key is asked for, which preflight requests do not send."""
        http_request = current_request()
        local, *_ = http_request.scope.get("server") or (None,)
        policy.check(http_request.method, local, http_request.headers)
        if http_request.method == "OPTIONS" and (headers := preflight_headers(http_request.headers)) is not None:
            return Response(b"", 204, headers)
        return None

    @app.after_request
    async def add_cors_headers(response: Response) -> Response:
        response.headers.update(policy.cors_headers(current_request().headers.get("Origin")))
        return response


def _require_key(app: ScopedApp, keys: KeyRing) -> None:
    @app.before_request
    async def check_key() -> None:
        """Refuse before the body is read.  A health check needs no key."""
        http_request = current_request()
        if http_request.path != "/health":
            http_request.key = keys.find(http_request.headers)


# --- the engine's state -----------------------------------------------------------------------------------------------


def _add_inspection_routes(app: ScopedApp, engine: Engine, write_bytes: int, watch: LoopWatch | None) -> None:
    async def list_response(name: str, values: Iterable[DataclassInstance]) -> Response:
        """Return an object with one array, which may be long."""
        http_request = current_request()
        backlog = http_request.resources.enter_context(
            engine.unread.backlog(f"GET {http_request.path}", gathering=True)
        )
        return await paged_json_response({name: LazyJsonArray(map(asdict, values))}, backlog, write_bytes)

    @app.get("/health")
    async def health() -> Response:
        if (reason := engine.health()) is None:
            return json_response({"status": "ok"})
        problem = Problem(reason, "unavailable_error", 503, code="unhealthy")
        current_request().problem = problem.message
        return json_response({"status": "unavailable"} | error_object(problem), problem.status)

    @app.get("/slots")
    async def slots() -> Response:
        return await list_response("slots", engine.slots())

    @app.get("/v1/requests")
    async def requests() -> Response:
        return await list_response("data", engine.requests())

    @app.get("/v1/receipts")
    async def receipts() -> Response:
        return await list_response("data", engine.receipts(_limit()))

    @app.get("/v1/statistics")
    async def statistics() -> Response:
        tasks = trio.lowlevel.current_statistics().tasks_living
        loop = {} if watch is None else {"loop": asdict(watch.statistics())}
        return json_response(asdict(engine.statistics()) | {"tasks": tasks} | loop)

    @app.delete("/v1/requests/<request_id>")
    async def cancel(request_id: str) -> Response:
        if not engine.cancel(request_id):
            message = f"There is no live request '{request_id}'."
            raise NotFound(message, param="request_id", code="request_not_found")
        return json_response({"id": request_id, "cancelled": True})


def _limit(default: int = 100) -> int:
    """Return the `limit` of the query string.  Raises RequestError."""
    given = query.args.get("limit", "")
    if not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise RequestError("Invalid 'limit': it should be a non-negative integer.", param="limit")
    return int(given)
