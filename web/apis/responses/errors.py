"""Errors of the Responses API: OpenAI's error objects, with one status of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import QueueFull
from web.generation.openai_format.errors import OpenAIErrors

if TYPE_CHECKING:
    from web.bodies.errors.problem import Problem


class ResponseErrors(OpenAIErrors):
    """OpenAI's error objects, where a full queue is a 503: clients of this API retry that, and not a 429."""

    def status(self, problem: Problem) -> int:
        """Return the problem's own status, but for a full queue."""
        return 503 if problem.code == QueueFull.code else problem.status
