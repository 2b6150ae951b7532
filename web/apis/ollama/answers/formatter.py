"""Answers in a stream, an object in each line (NDJSON), and whole, as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Token
from runtime.chat.parts import CallArguments, CallStart, ReasoningPart, TextPart
from web.apis.ollama.answers.objects import ContextIds, call_object, line, logprobs_of
from web.apis.ollama.errors import error_object
from web.bodies.json_encoding import RawJson
from web.generation.answer import TEXT, THOUGHT, Formatter, Gathered
from web.generation.answer_parts import AnswerParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.apis.ollama.answers.objects import AnswerOptions, Json
    from web.bodies.errors.problem import Problem

CONTENT_TYPE = "application/x-ndjson"


class AnswerFormatter(Formatter):
    """Shows an answer as Ollama does.

    Args:
        options: how to answer.
        page_bytes: of the pages that a whole answer is held in; None for a stream.
    """

    content_type = CONTENT_TYPE

    def __init__(self, options: AnswerOptions, page_bytes: int | None = None) -> None:
        parts = AnswerParts(options.parser, 1, whole_calls=True, one_text=True)
        super().__init__(parts, gathered=[Gathered(page_bytes, objects=True)] if page_bytes else ())
        self._options = options
        self._call: CallStart | None = None  # the last that began
        self._context = None if options.context is None else ContextIds(options.context)

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return super().__len__() + (0 if self._context is None else len(self._context))

    def take(self, event: Progress) -> Sequence[Part]:
        """Take an event; see `Formatter`."""
        if isinstance(event, Token):
            if self._context is not None:
                self._context.add(event.token_id)
            if self.gathered and event.logprobs is not None:
                self.gathered[0].extend("logprobs", [logprobs_of(event, self._options.tokenizer)])
        return super().take(event)

    def pieces(self, event: Progress, parts: Sequence[Part]) -> list[bytes]:
        """Return the lines for an event; see `Formatter`."""
        shown = [fields for part in parts if (fields := self._fields(part))]
        if isinstance(event, Token) and event.logprobs is not None:  # in the first line, which may show nothing else
            first, *rest = shown or [self._options.shape("", None, ())]
            shown = [first | {"logprobs": [logprobs_of(event, self._options.tokenizer)]}, *rest]
        return [self._line(fields) for fields in shown]

    def _fields(self, part: Part) -> Json | None:
        match part:
            case TextPart(text) if text:
                return self._options.shape(text, None, ())
            case ReasoningPart(text):
                return self._options.shape("", text, ())
            case CallStart():
                self._call = part
            case CallArguments(_, text) if self._call is not None:
                return self._options.shape("", None, [call_object(self._options.id, self._call, RawJson(text))])
        return None

    def closing(self) -> bytes:
        """Return the last line, which tells what the answer took."""
        last = self._options.envelope() | self._options.shape("", None, ()) | self._options.ending(self.ends[0])
        return line(last if self._context is None else last | {"context": self._context})

    def keep_alive(self) -> bytes:
        """Return a line that adds nothing: clients of this API know no comments."""
        return self._line(self._options.shape("", None, ()))

    def error(self, problem: Problem) -> bytes:
        """Return an error object in a line; see `Formatter`."""
        return line(error_object(problem))

    def _line(self, fields: Json) -> bytes:
        return line(self._options.envelope() | fields | {"done": False})

    def result(self) -> Json:
        """Return the object; see `Formatter`."""
        (gathered,) = self.gathered
        thought = gathered.content(THOUGHT)
        calls = [call_object(self._options.id, *call) for call in gathered.calls]
        fields = self._options.shape(gathered.content(TEXT), thought or None, calls)
        if self._options.logprobs:
            fields["logprobs"] = gathered.array("logprobs")
        if self._context is not None:
            fields["context"] = self._context
        return self._options.envelope() | fields | self._options.ending(self.ends[0])
