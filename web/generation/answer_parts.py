"""The parts of a request's answers, generation by generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import FinishReason, PromptScored, Token
from runtime.chat.parts import CallStart, ReasoningPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.generation import Finished, Progress
    from runtime.chat.parts import OutputParser, Part

TOOL_CALLS = "tool_calls"
"""The finish reason of an answer that calls tools, in the words of OpenAI."""


class AnswerParts:
    """Turns a request's events into parts; pure, and shared by the writers and collectors of all APIs.

    Args:
        parser: makes a generation's parser.
        generations: how many there are.

    Attributes:
        reasoning_tokens: how many tokens were thought, of all generations together, the markers before them included.
    """

    def __init__(self, parser: Callable[[], OutputParser], generations: int) -> None:
        self._parsers = [parser() for _ in range(generations)]
        self._calls = [0] * generations
        self._silent = [0] * generations  # tokens since the last part: markers, or text that is held back
        self.reasoning_tokens = 0

    def of(self, event: Progress) -> Sequence[Part]:
        """Return the parts that an event makes certain; those that were held back come with the last."""
        if isinstance(event, PromptScored):  # of what the client wrote
            return ()
        parser = self._parsers[event.index]
        parts = parser.push(event.text)
        if isinstance(event, Token):
            self._count(event.index, parts)
        else:
            parts = [*parts, *parser.finish()]
        self._calls[event.index] += sum(isinstance(part, CallStart) for part in parts)
        return parts

    def _count(self, index: int, parts: Sequence[Part]) -> None:
        """Count a token as thought if the parts that it, or the next, makes certain are."""
        self._silent[index] += 1
        if parts:
            if isinstance(parts[0], ReasoningPart):
                self.reasoning_tokens += self._silent[index]
            self._silent[index] = 0

    def reason(self, finished: Finished) -> str:
        """Return why a generation ended, in OpenAI's words; to be asked after its last parts."""
        if finished.reason is FinishReason.STOP and self._calls[finished.index]:
            return TOOL_CALLS
        return finished.reason.value
