"""Answers in a stream, an object in each line (NDJSON), and whole, as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import Token
from runtime.chat.parts import CallArguments, CallStart, ReasoningPart, TextPart
from web.apis.ollama.answers.models import NOTHING, ContextIds, call_object, error_object, line, logprobs_of
from web.bodies.json_encoding import RawJson
from web.generation.answer import THOUGHT, Formatter, Gathered
from web.generation.answer_parts import AnswerParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.chat.parts import Part
    from web.apis.ollama.answers.models import Answer, AnswerOptions, Beside, ProgressWithIds
    from web.bodies.errors.problem import Problem

CONTENT_TYPE = "application/x-ndjson"

GOES_ON: ProgressWithIds = {"done": False}


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
        shown = [said for part in parts if (said := self._said(part))]
        if not isinstance(event, Token) or event.logprobs is None:
            return [self._line(*said) for said in shown]
        first, *rest = shown or [("", NOTHING)]  # their line may show nothing else
        logprobs = [logprobs_of(event, self._options.tokenizer)]
        head = line(self._options.answer({"logprobs": logprobs, "done": False}, *first))
        return [head, *(self._line(*said) for said in rest)]

    def _said(self, part: Part) -> tuple[str, Beside] | None:
        match part:
            case TextPart(text) if text:
                return text, NOTHING
            case ReasoningPart(text):
                return "", {"thinking": text}
            case CallStart():
                self._call = part
            case CallArguments(_, text) if self._call is not None:
                return "", {"tool_calls": [call_object(self._options.id, self._call, RawJson(text))]}
        return None

    def closing(self) -> bytes:
        """Return the last line, which tells what the answer took."""
        ending = self._options.ending(self.ends[0])
        if self._context is not None:
            ending["context"] = self._context
        return line(self._options.answer(ending))

    def keep_alive(self) -> bytes:
        """Return a line that adds nothing: clients of this API know no comments."""
        return self._line()

    def error(self, problem: Problem) -> bytes:
        """Return an error object in a line; see `Formatter`."""
        return line(error_object(problem))

    def _line(self, content: str = "", beside: Beside = NOTHING) -> bytes:
        return line(self._options.answer(GOES_ON, content, beside))

    def result(self) -> Answer:
        """Return the object; see `Formatter`."""
        (gathered,) = self.gathered
        progress = self._options.ending(self.ends[0])
        if self._context is not None:
            progress = {"context": self._context, **progress}
        if self._options.logprobs:
            progress = {"logprobs": gathered.array("logprobs"), **progress}
        beside: Beside = {}
        if thought := gathered.content(THOUGHT):
            beside["thinking"] = thought
        if calls := [(start, content) for start, content in gathered.calls if isinstance(content, RawJson)]:
            beside["tool_calls"] = [call_object(self._options.id, *call) for call in calls]
        return self._options.answer(progress, gathered.text, beside)
