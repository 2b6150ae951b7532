"""The answers of `POST /v1/chat/completions`, as they are described and as they are written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from runtime.chat.parts import CallArguments, CallStart, ReasoningPart, TextPart
from web.bodies.json_encoding import Long
from web.generation.answer import THOUGHT
from web.generation.answer_parts import TokenLogprobs, token_logprobs
from web.generation.control.fields import CancelNote, cancel_note
from web.generation.openai_format.answers.formatter import AnyAnswer, AnyChunk, AnyPiece, CompletionFormatter
from web.generation.openai_format.answers.options import ServiceTier
from web.generation.openai_format.answers.prompt_scores import PromptLogprob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import Part
    from web.generation.openai_format.answers.formatter import Reason
    from web.generation.openai_format.answers.options import ResponseOptions

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]


class Logprobs(TypedDict):
    """The log-probabilities of a choice's tokens."""

    content: Long[list[TokenLogprobs]]
    refusal: None


class CalledFunction(TypedDict):
    """A function's name, and its arguments as a JSON text."""

    name: str
    arguments: Long[str]


class CalledCustom(TypedDict):
    """A custom tool's name, and its input."""

    name: str
    input: Long[str]


class ToolCall(TypedDict):
    """A call of a tool: `function` or `custom`, by its type."""

    id: str
    type: Literal["function", "custom"]
    function: NotRequired[CalledFunction]
    custom: NotRequired[CalledCustom]


class AnswerMessage(TypedDict):
    """Message of the model."""

    role: Literal["assistant"]
    content: Long[str] | None
    refusal: None
    reasoning_content: NotRequired[Long[str]]
    reasoning: NotRequired[
        Annotated[Long[str], Field(description="In place of `reasoning_content`, by --reasoning-field.")]
    ]
    tool_calls: NotRequired[list[ToolCall]]
    function_call: NotRequired[Annotated[CalledFunction, Field(description="For whoever asks with `functions`.")]]


class Choice(TypedDict):
    """One of the `n` answers."""

    index: int
    message: AnswerMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason
    cede: NotRequired[CancelNote]
    token_ids: NotRequired[Long[list[int]]]


class ChatCompletion(AnyAnswer):
    """A whole answer."""

    object: Literal["chat.completion"]
    service_tier: NotRequired[ServiceTier]
    choices: list[Choice]
    prompt_token_ids: NotRequired[tuple[int, ...]]
    prompt_logprobs: NotRequired[Long[list[dict[str, PromptLogprob] | None]]]


class FunctionDelta(TypedDict):
    """A piece of a call's name or arguments."""

    name: NotRequired[str]
    arguments: str


class CustomDelta(TypedDict):
    """A piece of a custom tool's name or input."""

    name: NotRequired[str]
    input: str


class ToolCallDelta(TypedDict):
    """A piece of a call; the first has its id and its name."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function", "custom"]]
    function: NotRequired[FunctionDelta]
    custom: NotRequired[CustomDelta]


class Delta(TypedDict):
    """A piece of a message."""

    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallDelta]]
    function_call: NotRequired[FunctionDelta]


class ChunkChoice(AnyPiece):
    """A piece of one of the answers."""

    delta: Delta
    logprobs: Logprobs | None
    finish_reason: FinishReason | None


class ChatCompletionChunk(AnyChunk):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    object: Literal["chat.completion.chunk"]
    service_tier: NotRequired[ServiceTier]
    choices: list[ChunkChoice]
    prompt_token_ids: NotRequired[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer.

    Attributes:
        number: of the call in its choice, from 0.
        id: by which the client's answer will refer to it.
        name: of the tool.
    """

    number: int
    id: str
    name: str


class ChatFormatter(CompletionFormatter[ChunkChoice, Logprobs]):
    """Shows an answer as a chat completion; see `CompletionFormatter`."""

    def __init__(self, options: ResponseOptions, page_bytes: int | None = None) -> None:
        super().__init__(options, page_bytes)
        self._calls: dict[tuple[int, int], Call] = {}  # that were begun in a stream, by choice and number

    def _call(self, index: int, start: CallStart) -> Call:
        """Return the call that begins in choice `index`: the same in a stream and in a whole answer."""
        digest = hashlib.blake2b(f"{self._options.id}/{index}/{start.call}".encode(), digest_size=12)
        return Call(start.call, start.id or f"call_{digest.hexdigest()}", start.name)

    def _is_custom(self, call: Call) -> bool:
        return call.name in self._options.custom

    def _logprobs_of(self, tokens: Sequence[Token], offset: int) -> Logprobs:
        """Return a list of objects, one for each token."""
        tokenizer = self._options.tokenizer
        return {"content": [token_logprobs(token, tokenizer) for token in tokens], "refusal": None}

    def _finish_reason(self, reason: Reason) -> FinishReason:
        return "function_call" if self._options.legacy and reason == "tool_calls" else reason

    # --- in pieces ----------------------------------------------------------------------------------------------------

    @cached_property
    def _head(self) -> ChatCompletionChunk:
        """Return what all chunks have in common."""
        options = self._options
        head: ChatCompletionChunk = {
            "id": options.id,
            "object": "chat.completion.chunk",
            "created": options.created,
            "model": options.model,
            "system_fingerprint": options.fingerprint,
            "service_tier": options.service_tier or "default",
            "choices": [],
        }
        if options.service_tier is None:
            del head["service_tier"]
        return head

    def _chunk(self, *pieces: ChunkChoice) -> ChatCompletionChunk:
        chunk = self._head | {"choices": list(pieces)}
        self._tell_usage(chunk)
        return chunk

    def _first(self, index: int) -> ChatCompletionChunk:
        """Return the role, with which every chat begins."""
        piece = self._piece(index)
        piece["delta"] = {"role": "assistant", "content": ""}
        chunk = self._chunk(piece)
        if self._options.token_ids:
            chunk["prompt_token_ids"] = self._options.prompts[index]
        return chunk

    def _piece(self, index: int, logprobs: Logprobs | None = None) -> ChunkChoice:
        return {"index": index, "logprobs": logprobs, "finish_reason": None, "delta": {}}

    def _end(self, piece: ChunkChoice, reason: Reason) -> None:
        piece["finish_reason"] = self._finish_reason(reason)

    def _show(self, piece: ChunkChoice, part: Part) -> bool:
        delta = piece["delta"]
        match part:
            case TextPart(text):
                delta["content"] = text
            case ReasoningPart(text):
                delta[self._options.reasoning] = text
            case CallStart():
                call = self._calls[piece["index"], part.call] = self._call(piece["index"], part)
                self._begin(delta, call)
            case CallArguments(_, text):
                self._go_on(delta, self._calls[piece["index"], part.call], text)
        return bool(delta)

    def _begin(self, delta: Delta, call: Call) -> None:
        if self._options.legacy:
            if call.number == 0:  # it knows one call at most
                delta["function_call"] = {"name": call.name, "arguments": ""}
            return
        start: ToolCallDelta = {"index": call.number, "id": call.id, "type": "function"}
        if self._is_custom(call):
            start["type"] = "custom"
            start["custom"] = {"name": call.name, "input": ""}
        else:
            start["function"] = {"name": call.name, "arguments": ""}
        delta["tool_calls"] = [start]

    def _go_on(self, delta: Delta, call: Call, text: str) -> None:
        if self._options.legacy:
            if call.number == 0:
                delta["function_call"] = {"arguments": text}
        elif self._is_custom(call):
            delta["tool_calls"] = [{"index": call.number, "custom": {"input": text}}]
        else:
            delta["tool_calls"] = [{"index": call.number, "function": {"arguments": text}}]

    # --- as a whole ---------------------------------------------------------------------------------------------------

    def result(self) -> ChatCompletion:
        """Return the response object; see `Formatter`."""
        options, shown = self._options, self._shown()
        answer: ChatCompletion = {
            "id": options.id,
            "object": "chat.completion",
            "created": options.created,
            "model": options.model,
            "system_fingerprint": options.fingerprint,
            "service_tier": options.service_tier or "default",
            "choices": [self._choice(index, number) for number, index in enumerate(shown)],
            **self._about_prompt(shown[0]),
            "usage": self._usage(),
            "timings": self._counter.timings(),
        }
        if options.service_tier is None:
            del answer["service_tier"]
        return answer

    def _choice(self, index: int, number: int) -> Choice:
        """Return a generation as the choice of that number."""
        end, array = self.ends[index], self.gathered[index].array
        return {
            "index": number,
            "logprobs": {"content": array("content"), "refusal": None} if self._options.logprobs else None,
            "finish_reason": self._finish_reason(self._reason(end)),
            **cancel_note(end),
            "message": self._message(index),
            **self._choice_ids(index),
        }

    def _message(self, index: int) -> AnswerMessage:
        gathered = self.gathered[index]
        text, thought = gathered.text, gathered.content(THOUGHT)
        calls = [(self._call(index, start), arguments) for start, arguments in gathered.calls]
        message: AnswerMessage = {"role": "assistant", "content": (text or None) if calls else text, "refusal": None}
        if thought is not None:
            message[self._options.reasoning] = thought
        if calls and self._options.legacy:
            call, arguments = calls[0]
            message["function_call"] = {"name": call.name, "arguments": arguments}
        elif calls:
            message["tool_calls"] = [self._tool_call(*each) for each in calls]
        return message

    def _tool_call(self, call: Call, arguments: Long[str]) -> ToolCall:
        if self._is_custom(call):
            return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": arguments}}
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
