"""Every way of saying no, in the OpenAI API's shape: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from quart import current_app, has_request_context, request, websocket
from quart_trio.wrappers import TrioResponse as Response
from werkzeug.exceptions import HTTPException

from runtime.errors import CedeError, Unavailable
from runtime.units import format_size
from web.bodies.json_encoding import dumps
from web.http.asgi import current_request
from web.process.tracebacks import clear_tracebacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quart_trio import QuartTrio

logger = logging.getLogger("cede.web")


def error_object(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The object that OpenAI's clients turn into an exception."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def describe(error: CedeError) -> dict[str, Any]:
    """`error` as an error object."""
    return error_object(str(error), error.kind, error.param, error.code)


INTERNAL_ERROR = error_object("The server failed to answer; its log says why.", "server_error", code="internal_error")


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A whole answer; where it is an error object, the request's line in the log has its message."""
    if isinstance(value, dict) and "error" in value and has_request_context():
        current_request().problem = value["error"]["message"]
    return Response(dumps(value), status, dict(headers or {}), content_type="application/json")


def report(error: CedeError) -> None:
    """Logs an error that is the server's own fault."""
    if error.status >= 500 and not isinstance(error, Unavailable):
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)


def install_error_handlers(app: QuartTrio) -> None:
    """Whatever a handler raises, or the routing or the body reader refuses, becomes an error object."""
    app.register_error_handler(CedeError, _cede_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _internal_error)


async def _cede_error(error: CedeError) -> Response:
    report(error)
    clear_tracebacks(error)
    headers = {} if error.retry_after is None else {"Retry-After": str(math.ceil(error.retry_after))}
    return json_response(describe(error), error.status, headers)


async def _http_error(error: HTTPException) -> Response:
    clear_tracebacks(error)
    status = error.code or 500
    message, code = _http_reason(error, status)
    kind = "invalid_request_error" if status < 500 else "server_error"
    methods = getattr(error, "valid_methods", None)
    headers = {"Allow": ", ".join(sorted(methods))} if methods else {}
    return json_response(error_object(message, kind, code=code), status, headers)


def _http_reason(error: HTTPException, status: int) -> tuple[str, str | None]:
    asked = request if has_request_context() else websocket  # whose handshake is refused like any request
    target = f"{asked.method} {asked.path}"
    match status:
        case 404:
            hint = "" if asked.path.startswith("/v1/") else "  The API is under /v1."
            return f"Unknown request URL: {target}.{hint}", "unknown_url"
        case 405:
            return f"This URL does not serve that method: {target}.", "method_not_allowed"
        case 408:
            return "The request body did not arrive in time.", "request_timeout"
        case 413:
            most = format_size(current_app.config["MAX_CONTENT_LENGTH"])
            return f"The request body is too large: at most {most} are read (--max-body).", "request_too_large"
        case 500:
            return INTERNAL_ERROR["error"]["message"], "internal_error"
        case _:
            return error.description or error.name, None


async def _internal_error(error: Exception) -> Response:
    logger.error("a handler failed", exc_info=error)
    clear_tracebacks(error)
    return json_response(INTERNAL_ERROR, 500)
