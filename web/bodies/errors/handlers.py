"""Exceptions of handlers, of the routing and of the body's reader as responses."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from quart import current_app, has_request_context, request, websocket
from werkzeug.exceptions import HTTPException

from runtime.common.log_text import shortened
from runtime.common.units import format_size
from runtime.errors import CedeError
from web.bodies.errors.problem import INTERNAL, Problem, report
from web.bodies.responses import json_response
from web.http.asgi import current_request
from web.process.tracebacks import clear_tracebacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quart_trio import QuartTrio
    from quart_trio.wrappers import TrioResponse as Response

    from web.bodies.errors.problem import ErrorShapes

logger = logging.getLogger("cede.web")


def install_error_handlers(app: QuartTrio, shapes: ErrorShapes) -> None:
    """Let every exception become an error object of the API that the request was for.

    Args:
        app: to be extended.
        shapes: of the APIs.
    """

    def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
        """Return the response; the request's line in the log gets the problem's message."""
        refused = request if has_request_context() else websocket  # a web socket's handshake is refused like a request
        shape = shapes.shape(refused.path, refused.headers)
        request_id = None
        if has_request_context():
            current_request().problem = problem.message
            request_id = current_request().generation_id
        status = shape.status(problem)
        return json_response(shape.body(problem, request_id), status, _headers(problem, status) | dict(headers or {}))

    async def cede_error(error: CedeError) -> Response:
        report(error)
        clear_tracebacks(error)
        return respond(Problem.of(error))

    async def http_error(error: HTTPException) -> Response:
        clear_tracebacks(error)
        methods = getattr(error, "valid_methods", None)
        return respond(_http_problem(error), {"Allow": ", ".join(sorted(methods))} if methods else {})

    async def internal_error(error: Exception) -> Response:
        logger.error("a handler failed", exc_info=error)
        clear_tracebacks(error)
        return respond(INTERNAL)

    app.register_error_handler(CedeError, cede_error)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, internal_error)


def _headers(problem: Problem, status: int) -> dict[str, str]:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}  # RFC 9110 wants it with every 401
    if problem.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(problem.retry_after))
    return headers


def _http_problem(error: HTTPException) -> Problem:
    """Describe an error of the routing or of the body's reader."""
    status = error.code or 500
    if status == 500:
        return INTERNAL
    message, code = _message_and_code(error, status)
    return Problem(shortened(message), "invalid_request_error" if status < 500 else "server_error", status, code=code)


def _message_and_code(error: HTTPException, status: int) -> tuple[str, str | None]:
    refused = request if has_request_context() else websocket
    target = f"{refused.method} {refused.path}"
    match status:
        case 404:
            hint = "" if refused.path.startswith("/v1/") else "  The API is under /v1."
            return f"Unknown request URL: {target}.{hint}", "unknown_url"
        case 405:
            return f"This URL does not serve that method: {target}.", "method_not_allowed"
        case 408:
            return "The request body did not arrive in time.", "request_timeout"
        case 413:
            limit = format_size(current_app.config["MAX_CONTENT_LENGTH"])
            return f"The request body is too large: at most {limit} are read (--max-body).", "request_too_large"
        case _:
            return error.description or error.name, None
