"""Errors in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from web.bodies.errors.problem import Problem


class ErrorDetails(TypedDict):
    """The error."""

    message: str
    type: str
    param: Annotated[str | None, Field(description="The field that is at fault.")]
    code: Annotated[str | None, Field(description="For programs.")]


class Error(TypedDict):
    """The error object, which OpenAI's clients turn into an exception."""

    error: ErrorDetails


def error_object(problem: Problem) -> Error:
    """Return the error object of a problem."""
    return {
        "error": {"message": problem.message, "type": problem.kind, "param": problem.param, "code": problem.code},
    }


class OpenAIErrors:
    """OpenAI's error objects; an `ErrorShape`."""

    def status(self, problem: Problem) -> int:
        """Return the problem's own status."""
        return problem.status

    def body(self, problem: Problem, request_id: str | None) -> Error:
        """Return the error object, which does not tell the request's id: a header does."""
        return error_object(problem)
