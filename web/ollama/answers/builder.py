"""Answers that are sent whole: the same events as a stream's, collected into one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Finished, Token
from runtime.chat.parts import CallArguments, ReasoningPart, TextPart
from web.bodies.json_encoding import JsonArrayBuilder, JsonStringBuilder
from web.generation.answer_parts import AnswerParts
from web.ollama.answers.calls import CallShapes
from web.ollama.answers.objects import ContextIds, logprobs_of

if TYPE_CHECKING:
    from collections.abc import Sized

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.ollama.answers.objects import AnswerOptions, Json


class AnswerBuilder:
    """Builds the object of one answer; a `collect.EventCollector`.  Pure, like `writer.LineWriter`.

    Args:
        options: how to answer.
        page_bytes: of the pages that the bytes are held in.
    """

    def __init__(self, options: AnswerOptions, page_bytes: int) -> None:
        self._options = options
        self._parts = AnswerParts(options.parser, 1, whole_calls=True, one_text=True)
        self._answer = _Answer(options, page_bytes)
        self._end: Finished | None = None

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return len(self._answer) + self._parts.held

    def add(self, event: Progress) -> None:
        """Add one event."""
        for part in self._parts.of(event):
            self._answer.add(part)
        if isinstance(event, Token):
            self._answer.add_token(event)
        elif isinstance(event, Finished):
            self._end = event

    def result(self) -> Json:
        """Return the object, whose long parts are `SelfEncoding`."""
        assert self._end is not None
        return self._options.envelope() | self._answer.fields() | self._options.ending(self._end)


class _Answer:
    """What is held of an answer; the arguments are `AnswerBuilder`'s.  Its length is in bytes."""

    def __init__(self, options: AnswerOptions, page_bytes: int) -> None:
        self._options = options
        self._text = JsonStringBuilder(page_bytes)
        self._thinking = JsonStringBuilder(page_bytes)
        self._shapes = CallShapes(options.id)
        self._calls: list[Json] = []
        self._called = 0  # characters of their arguments
        self._logprobs = JsonArrayBuilder(page_bytes)
        self._context = None if options.context is None else ContextIds(options.context)

    def __len__(self) -> int:
        held: list[Sized] = [self._text, self._thinking, self._logprobs]
        return sum(map(len, held)) + self._called + (0 if self._context is None else len(self._context))

    def add(self, part: Part) -> None:
        match part:
            case TextPart(text):
                self._text.add(text)
            case ReasoningPart(text):
                self._thinking.add(text)
            case _ if (call := self._shapes.of(part)) is not None:
                self._calls.append(call)
                self._called += len(part.text) if isinstance(part, CallArguments) else 0

    def add_token(self, token: Token) -> None:
        if self._context is not None:
            self._context.add(token.token_id)
        if token.logprobs is not None:
            self._logprobs.add(logprobs_of(token, self._options.tokenizer))

    def fields(self) -> Json:
        thinking = self._thinking if len(self._thinking) else None
        fields = self._options.shape(self._text, thinking, self._calls)
        if self._options.logprobs:
            fields["logprobs"] = self._logprobs
        if self._context is not None:
            fields["context"] = self._context
        return fields
