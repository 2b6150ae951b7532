"""Errors in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from web.bodies.errors.problem import Problem


def error_object(problem: Problem) -> dict[str, Any]:
    """Return the object that OpenAI's clients turn into an exception."""
    fields = {"message": problem.message, "type": problem.kind, "param": problem.param, "code": problem.code}
    return {"error": fields}


class OpenAIErrors:
    """OpenAI's error objects; an `ErrorShape`."""

    def status(self, problem: Problem) -> int:
        """Return the problem's own status."""
        return problem.status

    def body(self, problem: Problem, request_id: str | None) -> dict[str, Any]:
        """Return the error object, which does not tell the request's id: a header does."""
        return error_object(problem)
