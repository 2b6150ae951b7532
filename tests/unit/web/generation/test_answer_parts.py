"""A request's events as the parts of its answers."""

from __future__ import annotations

from actors.core.generation import FinishReason
from runtime.chat.parts import CallEnd, CallStart, Part, PlainParser, TextPart
from tests.fakes.engine import finished, token
from web.generation.answer_parts import AnswerParts


class CallingParser:
    """Calls a tool at each "!", and holds back one character."""

    def __init__(self) -> None:
        self._calls = 0
        self._held = ""

    def push(self, text: str) -> list[Part]:
        """Return what was held back."""
        self._held, parts = text[-1:] or self._held, self._parts(self._held + text[:-1] if text else "")
        return parts

    def finish(self, *, cut: bool = False) -> list[Part]:
        """Return the rest."""
        return self._parts(self._held)

    def _parts(self, text: str) -> list[Part]:
        parts: list[Part] = []
        for char in text:
            if char == "!":
                parts += [CallStart(self._calls, "shout"), CallEnd(self._calls)]
                self._calls += 1
            else:
                parts.append(TextPart(char))
        return parts


def test_plain_text_is_text() -> None:
    answers = AnswerParts(PlainParser, 1)
    assert answers.of(token("hello")) == (TextPart("hello"),)
    assert answers.of(token("")) == ()
    assert answers.of(finished(text=" world")) == [TextPart(" world")]
    assert answers.reason(finished()) == "stop"


def test_what_was_held_back_comes_with_the_end() -> None:
    answers = AnswerParts(CallingParser, 1)
    assert answers.of(token("ab")) == [TextPart("a")]
    assert answers.of(finished(text="c")) == [TextPart("b"), TextPart("c")]


def test_an_answer_that_calls_tools_ends_so() -> None:
    answers = AnswerParts(CallingParser, 2)
    assert answers.of(finished(0, text="!")) == [CallStart(0, "shout"), CallEnd(0)]
    answers.of(finished(1))
    assert answers.reason(finished(0)) == "tool_calls"
    assert answers.reason(finished(1)) == "stop"
    assert answers.reason(finished(0, FinishReason.LENGTH)) == "length"
    assert answers.reason(finished(0, FinishReason.CANCELLED)) == "cancelled"
