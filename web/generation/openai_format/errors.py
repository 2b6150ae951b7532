"""Errors in the shape of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from typing_extensions import TypedDict

from web.bodies.errors.problem import ErrorShape

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


def error_object(problem: Problem, _: str | None = None) -> Error:
    """Return the error object of a problem, which does not tell the request's id: a header does."""
    return {
        "error": {"message": problem.message, "type": problem.kind, "param": problem.param, "code": problem.code},
    }


OPENAI_ERRORS = ErrorShape(error_object)
