"""The objects that Ollama's endpoints answer, and how an answer is made: a stream, an object in each line, or whole."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from actors.core.generation import FinishReason, Token
from runtime.chat.parts import CallArguments, CallStart, PlainParser, ReasoningPart, TextPart
from web.bodies.errors.problem import ErrorShape
from web.bodies.json_encoding import Long, RawJson, SelfEncoding, iter_json
from web.generation.answer import THOUGHT, Formatter, Gathered
from web.generation.answer_parts import Alternative, AnswerParts, token_logprobs
from web.generation.control.fields import CancelNote, cancel_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.core.generation import Finished
    from actors.core.generation import Progress as EngineProgress
    from runtime.chat.parts import OutputParser, Part
    from runtime.text.tokenizer import Tokenizer
    from web.bodies.errors.problem import Problem
    from web.bodies.json_encoding import JsonObject

    AnswerShape = Callable[["Beginning", Long[str], "Beside", "ProgressWithIds"], "Answer"]
    """Shows what the model says as an endpoint does: `message_shape` or `response_shape`."""


class Error(TypedDict):
    """The error object."""

    error: str


class Logprob(Alternative):
    """A token that was drawn, its log-probability, and likely others."""

    top_logprobs: NotRequired[list[Alternative]]


class Beginning(TypedDict):
    """Fields that all answers begin with."""

    model: str
    created_at: str


class Progress(TypedDict):
    """Fields that all answers have; durations in nanoseconds, and in the last object of a stream alone."""

    done: bool
    done_reason: NotRequired[Literal["stop", "length", "cancelled", "load"]]
    total_duration: NotRequired[int]
    load_duration: NotRequired[Annotated[int, Field(description="Neither on the prompt nor on the answer: waiting.")]]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    logprobs: NotRequired[Long[list[Logprob]]]
    cede: NotRequired[CancelNote]


class ProgressWithIds(Progress):
    """The same, and the ids with which an answer to a prompt ends."""

    context: NotRequired[
        Annotated[Long[list[int]], Field(description="The ids of prompt and answer, for the next request.")]
    ]


class EmbedAnswer(TypedDict):
    """The vectors of all inputs, in their order; durations in nanoseconds."""

    model: str
    embeddings: list[Long[list[float]]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OldEmbedAnswer(TypedDict):
    """The vector of the prompt, as it is: it was not divided by its length."""

    embedding: Long[list[float]]


class CalledFunction(TypedDict):
    """A function that the model calls."""

    index: int
    name: str
    arguments: Long[dict[str, object]]


class ToolCall(TypedDict):
    """A tool call, which always comes whole."""

    id: str
    function: CalledFunction


class Beside(TypedDict):
    """The model's thoughts and calls, or the next part of them."""

    thinking: NotRequired[Long[str]]
    tool_calls: NotRequired[list[ToolCall]]


class Message(Beside):
    """The model's message, or the next part of it."""

    role: Literal["assistant"]
    content: Long[str]


class ChatAnswer(Beginning, Progress):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    message: Message


class GenerateAnswer(Beginning, Beside, ProgressWithIds):
    """A whole answer, or a line of a stream.  An error that breaks a stream off is an error object."""

    response: Long[str]


Answer = ChatAnswer | GenerateAnswer


class Details(TypedDict):
    """Details of the model, from its files."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class Tag(TypedDict):
    """The model that is served."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details


class Tags(TypedDict):
    """All models: the one."""

    models: list[Tag]


class Process(TypedDict):
    """The model that is loaded."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    context_length: int


class Processes(TypedDict):
    """All loaded models: the one."""

    models: list[Process]


class Show(TypedDict):
    """Description of the model."""

    modelfile: str
    parameters: str
    template: Annotated[str, Field(description="In Jinja.")]
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[str]
    modified_at: str


class Version(TypedDict):
    """The version of Ollama whose API this is."""

    version: str


# --- how an answer is made --------------------------------------------------------------------------------------------

NANOSECONDS = 1_000_000  # in a millisecond

DONE_REASONS: dict[FinishReason, Literal["stop", "length", "cancelled"]] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "cancelled",
}

NOTHING: Beside = {}


def message_shape(begin: Beginning, content: Long[str], beside: Beside, progress: Progress) -> ChatAnswer:
    """Show it as a message, for `/api/chat`; see `AnswerShape`."""
    return {**begin, "message": {"role": "assistant", "content": content, **beside}, **progress}


def response_shape(begin: Beginning, content: Long[str], beside: Beside, progress: ProgressWithIds) -> GenerateAnswer:
    """Show it as a text, for `/api/generate`; see `AnswerShape`."""
    return {**begin, "response": content, **beside, **progress}


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Options of a request for its answer.

    Attributes:
        id: of the request, of which those of its calls are made.
        model: the name that the client used.
        shape: of the endpoint.
        tokenizer: of the model, for the text of single tokens.
        parser: makes the parser of the answer's text.
        logprobs: whether to show log-probabilities.
        context: the prompt's ids as the inside of a JSON array, where the answer ends with all ids; None where not.
        clock: seconds since the epoch.
        started: when the request was understood, by that clock.
    """

    id: str
    model: str
    shape: AnswerShape
    tokenizer: Tokenizer
    parser: Callable[[], OutputParser] = PlainParser
    logprobs: bool = False
    context: str | None = None
    clock: Callable[[], float] = time.time
    started: float = 0.0

    def answer(self, progress: ProgressWithIds, content: Long[str] = "", beside: Beside = NOTHING) -> Answer:
        """Return an answer, or the next part of it."""
        begin: Beginning = {"model": self.model, "created_at": timestamp(self.clock())}
        return self.shape(begin, content, beside, progress)

    def ending(self, finished: Finished) -> ProgressWithIds:
        """Return the fields of a whole answer's end.

        `load_duration` is the time that was spent on neither the prompt nor the answer: as in Ollama, the wait for the
        model.
        """
        timings = finished.timings
        prompt, answer = round(timings.prompt_ms * NANOSECONDS), round(timings.predicted_ms * NANOSECONDS)
        total = max(prompt + answer, round((self.clock() - self.started) * 1000 * NANOSECONDS))
        ending: ProgressWithIds = {
            "done": True,
            "done_reason": DONE_REASONS[finished.reason],
            "total_duration": total,
            "load_duration": total - prompt - answer,
            "prompt_eval_count": finished.prompt_tokens,
            "prompt_eval_duration": prompt,
            "eval_count": finished.completion_tokens,
            "eval_duration": answer,
        }
        note = cancel_note(finished)
        if "cede" in note:
            ending["cede"] = note["cede"]
        return ending


class ContextIds(SelfEncoding[list[int]]):
    """The ids of a prompt and of its answer so far, as JSON that is ready to be sent.

    Args:
        prompt: the prompt's ids, as the inside of an array.
    """

    def __init__(self, prompt: str) -> None:
        self._encoded = bytearray(prompt.encode())

    def __len__(self) -> int:
        """Return the number of bytes that are held."""
        return len(self._encoded)

    def add(self, token_id: int) -> None:
        """Add the answer's next token."""
        self._encoded += f",{token_id}".encode()

    def iter_json(self) -> Iterator[bytes]:
        """Yield the array."""
        yield b"["
        yield bytes(self._encoded)
        yield b"]"


def timestamp(seconds: float) -> str:
    """Return a time as Ollama writes it (RFC 3339); seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def logprobs_of(token: Token, tokenizer: Tokenizer) -> Logprob:
    """Return the log-probability of a token, and those of its alternatives where some were asked for."""
    shown: Logprob = {**token_logprobs(token, tokenizer)}
    if not shown["top_logprobs"]:
        del shown["top_logprobs"]
    return shown


def call_object(request_id: str, start: CallStart, arguments: Long[dict[str, object]]) -> ToolCall:
    """Return a call, whose id is made of the request's."""
    digest = hashlib.blake2b(f"{request_id}/{start.call}".encode(), digest_size=12)
    return {
        "id": f"call_{digest.hexdigest()}",
        "function": {"index": start.call, "name": start.name, "arguments": arguments},
    }


def line(value: JsonObject) -> bytes:
    """Encode an object as one line of a stream."""
    return b"".join(iter_json(value)) + b"\n"


def error_object(problem: Problem, _: str | None = None) -> Error:
    """Return the object that Ollama's clients turn into an exception; it has no place for the request's id."""
    return {"error": problem.message}


OLLAMA_ERRORS = ErrorShape(error_object)

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

    def take(self, event: EngineProgress) -> Sequence[Part]:
        """Take an event; see `Formatter`."""
        if isinstance(event, Token):
            if self._context is not None:
                self._context.add(event.token_id)
            if self.gathered and event.logprobs is not None:
                self.gathered[0].extend("logprobs", [logprobs_of(event, self._options.tokenizer)])
        return super().take(event)

    def pieces(self, event: EngineProgress, parts: Sequence[Part]) -> list[bytes]:
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
