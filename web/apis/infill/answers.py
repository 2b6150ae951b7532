"""The answers of `POST /infill`, in the shape of llama-server's completions: a stream of objects, or one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from actors.core.generation import FinishReason, Token
from runtime.chat.parts import PlainParser, TextPart
from web.bodies.event_stream import sse
from web.bodies.json_encoding import Long
from web.generation.answer import Formatter, Gathered
from web.generation.answer_parts import AnswerParts
from web.generation.control.fields import CancelNote, cancel_note
from web.generation.openai_format.answers.usage import Timings, timings
from web.generation.openai_format.errors import error_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.core.generation import Finished, Progress
    from runtime.chat.parts import Part
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.errors.problem import Problem
    from web.bodies.json_encoding import JsonObject


class LikelyToken(TypedDict):
    """A token, and how likely it was."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class DrawnToken(LikelyToken):
    """A token of the answer, and those that were likely in its place."""

    top_logprobs: list[LikelyToken]


class InfillAnswer(TypedDict, total=False):
    """A whole answer; with `response_fields` only what these paths lead to, each under its path."""

    index: Literal[0]
    content: Long[str]
    tokens: Annotated[Long[list[int]], Field(description="With `return_tokens`; else empty.")]
    stop: bool
    model: str
    tokens_predicted: int
    tokens_evaluated: Annotated[int, Field(description="Tokens of the prompt.")]
    tokens_cached: Annotated[int, Field(description="Those of them that were found computed.")]
    has_new_line: bool
    truncated: Literal[False]
    stop_type: Literal["eos", "limit", "word"]
    stopping_word: str
    timings: Timings
    completion_probabilities: Long[list[DrawnToken]]
    cede: CancelNote


class InfillPiece(InfillAnswer):
    """The data of one event: a piece of the answer, or its end, where `stop` is true."""


@dataclass(frozen=True, slots=True)
class InfillOptions:
    """Options of a request for its answer.

    Attributes:
        model: the name that the client used.
        tokenizer: of the model, for the text of single tokens.
        prompt_tokens: how many the prompt has.
        logprobs: whether to show log-probabilities.
        tokens: whether a whole answer has its token ids; a stream always has them.
        fields: paths of what the last object is to have, such as `timings/prompt_n`; all where there are none.
    """

    model: str
    tokenizer: Tokenizer
    prompt_tokens: int
    logprobs: bool = False
    tokens: bool = False
    fields: tuple[str, ...] = ()

    def piece(self, content: str, token_ids: list[int], predicted: int) -> InfillPiece:
        """Return the object of a piece of the answer, of which `predicted` tokens have come so far."""
        return {
            "index": 0,
            "content": content,
            "tokens": token_ids,
            "stop": False,
            "tokens_predicted": predicted,
            "tokens_evaluated": self.prompt_tokens,
        }

    def last(
        self, content: Long[str], token_ids: Long[list[int]], finished: Finished, *, has_new_line: bool
    ) -> InfillAnswer:
        """Return the object that ends an answer."""
        stop_type, stopping_word = _stop(finished)
        last: InfillAnswer = {
            "index": 0,
            "content": content,
            "tokens": token_ids,
            "stop": True,
            "model": self.model,
            "tokens_predicted": finished.completion_tokens,
            "tokens_evaluated": finished.prompt_tokens,
            "tokens_cached": finished.cached_tokens,
            "has_new_line": has_new_line,
            "truncated": False,  # no prompt is ever cut
            "stop_type": stop_type,
            "stopping_word": stopping_word,
            "timings": timings([finished.timings]),
        }
        if note := cancel_note(finished):
            last["cede"] = note["cede"]
        return last

    def chosen(self, whole: InfillAnswer) -> JsonObject:
        """Return what the client wants of the last object: each path that leads somewhere is a field."""
        if not self.fields:
            return whole
        found = {path: _at(whole, path.split("/")) for path in self.fields}
        return {path: value for path, value in found.items() if value is not None}

    def logprobs_of(self, token: Token) -> DrawnToken:
        """Return the log-probability of a token, and of its alternatives."""
        assert token.logprobs is not None
        top = [self._alternative(*other) for other in token.logprobs.top]
        return {**self._alternative(token.token_id, token.logprobs.logprob), "top_logprobs": top}

    def _alternative(self, token_id: int, logprob: float) -> LikelyToken:
        text = self.tokenizer.token_text(token_id)
        return {"id": token_id, "token": text, "bytes": list(self.tokenizer.token_bytes(token_id)), "logprob": logprob}


def _stop(finished: Finished) -> tuple[Literal["eos", "limit", "word"], str]:
    """Return why an answer ended, in llama-server's words, which have none for a cancelled one."""
    if finished.reason is not FinishReason.STOP:
        return "limit", ""
    word = finished.stop_string
    return ("eos", "") if word is None else ("word", word)


def _at(value: object, path: Sequence[str]) -> object:
    """Return what a path leads to; None where it leads nowhere."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


class InfillFormatter(Formatter):
    """Shows an answer as llama-server does.

    Args:
        options: how to answer.
        page_bytes: of the pages that a whole answer is held in; None for a stream.
    """

    def __init__(self, options: InfillOptions, page_bytes: int | None = None) -> None:
        super().__init__(AnswerParts(PlainParser, 1), gathered=[Gathered(page_bytes)] if page_bytes else ())
        self._options = options
        self._silent: list[int] = []  # tokens of a stream whose text is held back
        self._probabilities: list[DrawnToken] = []  # of these
        self._predicted = 0
        self._has_new_line = False

    def take(self, event: Progress) -> Sequence[Part]:
        """Take an event; see `Formatter`."""
        if isinstance(event, Token):
            self._predicted += 1
            shown = [self._options.logprobs_of(event)] if self._options.logprobs and event.logprobs is not None else []
            if self.gathered:
                self.gathered[0].extend("tokens", [event.token_id] if self._options.tokens else ())
                self.gathered[0].extend("completion_probabilities", shown)
            else:
                self._silent.append(event.token_id)
                self._probabilities += shown
        parts = super().take(event)
        self._has_new_line = self._has_new_line or "\n" in _text(parts)
        return parts

    def pieces(self, event: Progress, parts: Sequence[Part]) -> Iterable[bytes]:
        """Return an object where there is a text to show, or no token may be left unsaid; see `Formatter`."""
        text = _text(parts)
        if not (text or (self.finished and self._silent)):
            return ()
        shown = self._options.piece(text, self._silent, self._predicted)
        if self._options.logprobs:
            shown["completion_probabilities"] = self._probabilities
        self._silent, self._probabilities = [], []
        return (sse(shown),)

    def closing(self) -> bytes:
        """Return the last object, which tells how the answer ended and what it took."""
        return sse(self._options.chosen(self._last("", [])))

    def keep_alive(self) -> bytes:
        """Return an object that adds nothing: a comment would not wake a client's timer."""
        return sse(self._options.piece("", [], self._predicted))

    def error(self, problem: Problem) -> bytes:
        """Return OpenAI's error object; see `Formatter`."""
        return sse(error_object(problem))

    def result(self) -> JsonObject:
        """Return the object; see `Formatter`."""
        (gathered,) = self.gathered
        whole = self._last(gathered.text, gathered.array("tokens"))
        if self._options.logprobs:
            whole["completion_probabilities"] = gathered.array("completion_probabilities")
        return self._options.chosen(whole)

    def _last(self, content: Long[str], token_ids: Long[list[int]]) -> InfillAnswer:
        return self._options.last(content, token_ids, self.ends[0], has_new_line=self._has_new_line)


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))
