"""Errors in the shape of Ollama's API: `{"error": "a sentence"}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from web.apis.ollama.answers.models import Error
    from web.bodies.errors.problem import Problem


def error_object(problem: Problem) -> Error:
    """Return the object that Ollama's clients turn into an exception."""
    return {"error": problem.message}


class OllamaErrors:
    """Ollama's error objects; an `ErrorShape`."""

    def status(self, problem: Problem) -> int:
        """Return the problem's own status."""
        return problem.status

    def body(self, problem: Problem, request_id: str | None) -> Error:
        """Return the error object, which has no place for the request's id."""
        return error_object(problem)
