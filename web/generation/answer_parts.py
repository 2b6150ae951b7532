"""The parts of a request's answers, generation by generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import FinishReason, PromptScored, Token
from runtime.chat.parts import CallEnd, CallStart, ReasoningPart
from web.generation.shown_parts import OneText, WholeCalls

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
        whole_calls: a call is to be shown once it is whole, and a broken one as text.
        one_text: texts between calls are one string.

    Attributes:
        reasoning_tokens: how many tokens were thought, of all generations together, the markers before them included.
    """

    def __init__(
        self,
        parser: Callable[[], OutputParser],
        generations: int,
        *,
        whole_calls: bool = False,
        one_text: bool = False,
    ) -> None:
        self._parsers = [parser() for _ in range(generations)]
        self._whole = [WholeCalls() for _ in range(generations)] if whole_calls else []
        self._text = [OneText() for _ in range(generations)] if one_text else []
        self._begun = [0] * generations  # calls
        self._ended = [0] * generations
        self._silent = [0] * generations  # tokens since the last part: markers, or text that is held back
        self.reasoning_tokens = 0

    def of(self, event: Progress) -> Sequence[Part]:
        """Return the parts that an event makes certain; those that were held back come with the last."""
        if isinstance(event, PromptScored):  # of what the client wrote
            return ()
        index, parser = event.index, self._parsers[event.index]
        parts = parser.push(event.text)
        if isinstance(event, Token):
            self._count(index, parts)
        else:
            parts = [*parts, *parser.finish(cut=event.reason is not FinishReason.STOP)]
        for part in parts:
            self._begun[index] += isinstance(part, CallStart)
            self._ended[index] += isinstance(part, CallEnd)
        if self._whole:
            parts = list(self._whole[index].of(parts, last=not isinstance(event, Token)))
        return list(self._text[index].of(parts)) if self._text else parts

    @property
    def held(self) -> int:
        """Characters of calls that are not whole yet, where they are held back."""
        return sum(map(len, self._whole))

    def _count(self, index: int, parts: Sequence[Part]) -> None:
        """Count a token as thought if the parts that it, or the next, makes certain are."""
        self._silent[index] += 1
        if parts:
            if isinstance(parts[0], ReasoningPart):
                self.reasoning_tokens += self._silent[index]
            self._silent[index] = 0

    def reason(self, finished: Finished) -> str:
        """Return why a generation ended, in OpenAI's words; to be asked after its last parts.

        One with a broken call does not say that there are calls to carry out.
        """
        begun, ended = self._begun[finished.index], self._ended[finished.index]
        if finished.reason is FinishReason.STOP and begun and begun == ended:
            return TOOL_CALLS
        return finished.reason.value
