"""Error responses in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

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
    """Return the object that OpenAI's clients turn into an exception.

    Args:
        message: one or more sentences for whoever reads the client's log.
        kind: OpenAI's `type`, such as `invalid_request_error`.
        param: the field that is at fault.
        code: for programs.
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


INTERNAL_ERROR = error_object("The server failed to answer; its log says why.", "server_error", code="internal_error")


def describe(error: CedeError) -> dict[str, Any]:
    """Return `error` as an error object."""
    return error_object(str(error), error.kind, error.param, error.code)


def report(error: CedeError) -> None:
    """Log an error that is the server's own fault."""
    if error.status >= 500 and not isinstance(error, Unavailable):
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a short response.  If `value` is an error object, the request's line in the log has its message."""
    if isinstance(value, dict) and "error" in value and has_request_context():
        current_request().problem = value["error"]["message"]
    return Response(dumps(value), status, dict(headers or {}), content_type="application/json")


def not_found(message: str, param: str, code: str) -> Response:
    """Return a response of status 404 for a name, `param`, that means nothing here."""
    return json_response(error_object(message, "invalid_request_error", param, code), 404)


def install_error_handlers(app: QuartTrio) -> None:
    """Let every exception of a handler, of the routing and of the body's reader become an error object."""
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
    message, code = _message_and_code(error, status)
    kind = "invalid_request_error" if status < 500 else "server_error"
    methods = getattr(error, "valid_methods", None)
    headers = {"Allow": ", ".join(sorted(methods))} if methods else {}
    return json_response(error_object(message, kind, code=code), status, headers)


def _message_and_code(error: HTTPException, status: int) -> tuple[str, str | None]:
    refused = request if has_request_context() else websocket  # a web socket's handshake is refused like a request
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
        case 500:
            return INTERNAL_ERROR["error"]["message"], "internal_error"
        case _:
            return error.description or error.name, None


async def _internal_error(error: Exception) -> Response:
    logger.error("a handler failed", exc_info=error)
    clear_tracebacks(error)
    return json_response(INTERNAL_ERROR, 500)
