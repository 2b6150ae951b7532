"""Answers that are streamed: an object in each line (NDJSON)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Failed, Finished, Token
from runtime.chat.parts import ReasoningPart, TextPart
from web.bodies.event_stream import HEADERS
from web.bodies.json_encoding import iter_json
from web.errors.problem import INTERNAL, Problem, report
from web.generation.answer_parts import AnswerParts
from web.ollama.answers.calls import CallShapes
from web.ollama.answers.objects import ContextIds, line, logprobs_of
from web.ollama.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.core.generation import Event
    from runtime.chat.parts import Part
    from web.ollama.answers.objects import AnswerOptions, Json

CONTENT_TYPE = "application/x-ndjson"


class LineWriter:
    """Turns a request's events into the lines of a stream; an `event_stream.EventWriter`.

    Args:
        options: how to answer.

    Attributes:
        failed: whether an error was written; then nothing follows.
    """

    content_type = CONTENT_TYPE
    headers = HEADERS

    def __init__(self, options: AnswerOptions) -> None:
        self._options = options
        self._parts = AnswerParts(options.parser, 1, whole_calls=True, one_text=True)
        self._calls = CallShapes(options.id)
        self._context = None if options.context is None else ContextIds(options.context)
        self._end: Finished | None = None
        self.failed = False

    @property
    def finished(self) -> bool:
        """Whether the answer has finished; then only `closing` is left to write."""
        return self._end is not None

    def write(self, event: Event) -> Iterable[bytes]:
        """Return the lines for `event`; none if there is nothing to show, or an error was written."""
        if self.failed:
            return ()
        if isinstance(event, Failed):
            report(event.error)
            return (self._fail(Problem.of(event.error)),)
        shown = [fields for part in self._parts.of(event) if (fields := self._fields(part))]
        if isinstance(event, Token):
            if self._context is not None:
                self._context.add(event.token_id)
            if event.logprobs is not None:  # in the first of its lines, which may show nothing else
                first, *rest = shown or [self._options.shape("", None, ())]
                shown = [first | {"logprobs": [logprobs_of(event, self._options.tokenizer)]}, *rest]
        elif isinstance(event, Finished):
            self._end = event
        return [self._line(fields) for fields in shown]

    def closing(self) -> bytes:
        """Return the last line, which tells what the answer took."""
        assert self._end is not None
        last = self._options.envelope() | self._options.shape("", None, ()) | self._options.ending(self._end)
        if self._context is not None:
            last["context"] = self._context
        return b"".join(iter_json(last)) + b"\n"

    def fail_internally(self) -> bytes:
        """Return the end of a stream that an error of the server breaks off."""
        return self._fail(INTERNAL)

    def keep_alive(self) -> bytes:
        """Return a line that adds nothing: clients of this API know no comments."""
        return self._line(self._options.shape("", None, ()))

    def _fail(self, problem: Problem) -> bytes:
        self.failed = True
        return line(error_object(problem))

    def _fields(self, part: Part) -> Json | None:
        match part:
            case TextPart(text):
                return self._options.shape(text, None, ()) if text else None
            case ReasoningPart(text):
                return self._options.shape("", text, ())
        call = self._calls.of(part)
        return None if call is None else self._options.shape("", None, [call])

    def _line(self, fields: Json) -> bytes:
        return line(self._options.envelope() | fields | {"done": False})
