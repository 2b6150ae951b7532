"""The answers of `POST /v1/chat/completions`, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import PromptLogprob, RunningUsage, Timings, Usage
from web.openapi.operations import Answer

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]


class Alternative(Answer):
    """A token that was likely."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


class Logprobs(Answer):
    """The log-probabilities of a choice's tokens."""

    content: list[TokenLogprobs]
    refusal: None


class CalledFunction(Answer):
    """A function's name, and its arguments as a JSON text."""

    name: str
    arguments: str


class CalledCustom(Answer):
    """A custom tool's name, and its input."""

    name: str
    input: str


class ToolCall(Answer):
    """A call of a tool: `function` or `custom`, by its type."""

    id: str
    type: Literal["function", "custom"]
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class AnswerMessage(Answer):
    """Message of the model."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    reasoning: str | None = Field(None, description="In place of `reasoning_content`, by --reasoning-field.")
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = Field(None, description="For whoever asks with `functions`.")


class Choice(Answer):
    """One of the `n` answers."""

    index: int
    message: AnswerMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason
    cede: CancelNote | None = None
    token_ids: list[int] | None = None


class ChatCompletion(Answer):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: Literal["flex", "default", "priority"] | None = None
    choices: list[Choice]
    usage: Usage
    timings: Timings
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class FunctionDelta(Answer):
    """A piece of a call's name or arguments."""

    name: str | None = None
    arguments: str


class CustomDelta(Answer):
    """A piece of a custom tool's name or input."""

    name: str | None = None
    input: str


class ToolCallDelta(Answer):
    """A piece of a call; the first has its id and its name."""

    index: int
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None


class Delta(Answer):
    """A piece of a message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None


class ChunkChoice(Answer):
    """A piece of one of the answers."""

    index: int
    delta: Delta
    logprobs: Logprobs | None
    finish_reason: FinishReason | None
    cede: CancelNote | None = None
    token_ids: list[int] | None = None


class ChatCompletionChunk(Answer):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: Literal["flex", "default", "priority"] | None = None
    choices: list[ChunkChoice]
    usage: Usage | RunningUsage | None = None
    timings: Timings | None = None
    prompt_token_ids: list[int] | None = None
