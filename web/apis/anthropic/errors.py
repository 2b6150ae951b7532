"""Errors in the shape of Anthropic's API: `{"type": "error", "error": {"type", "message"}, "request_id"}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict

from runtime.errors import QueueFull
from web.bodies.errors.problem import ErrorShape

if TYPE_CHECKING:
    from web.bodies.errors.problem import Problem

OVERLOADED = 529
"""Anthropic's status for a server that is busy with others; its clients try again, as after a 503."""

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
"""The `type` of an error by its status; other statuses below 500 are invalid requests."""

TOO_LONG = "prompt is too long: "
"""How Anthropic's message begins for a prompt that does not fit; clients look for it, and shorten the conversation."""


class ErrorBody(TypedDict):
    """The error."""

    type: str
    message: str


class Error(TypedDict):
    """The error object, which Anthropic's clients turn into an exception."""

    type: Literal["error"]
    error: ErrorBody
    request_id: str | None


def error_object(problem: Problem, request_id: str | None) -> Error:
    """Return the object that Anthropic's clients turn into an exception.

    Args:
        problem: to be told.
        request_id: of the engine's request; None where there is none yet.
    """
    status = status_of(problem)
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    message = f"{TOO_LONG}{problem.message}" if problem.code == "context_length_exceeded" else problem.message
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def status_of(problem: Problem) -> int:
    """Return the status that Anthropic's API has for a problem: one of its own where the server is busy or away."""
    return OVERLOADED if problem.status == 503 or problem.code == QueueFull.code else problem.status


ANTHROPIC_ERRORS = ErrorShape(error_object, status_of)
