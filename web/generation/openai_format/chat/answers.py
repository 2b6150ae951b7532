"""The answers of `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import PromptLogprob, RunningUsage, Timings, Usage

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]


class Alternative(TypedDict):
    """A token that was likely."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


class Logprobs(TypedDict):
    """The log-probabilities of a choice's tokens."""

    content: list[TokenLogprobs]
    refusal: None


class CalledFunction(TypedDict):
    """A function's name, and its arguments as a JSON text."""

    name: str
    arguments: str


class CalledCustom(TypedDict):
    """A custom tool's name, and its input."""

    name: str
    input: str


class ToolCall(TypedDict):
    """A call of a tool: `function` or `custom`, by its type."""

    id: str
    type: Literal["function", "custom"]
    function: NotRequired[CalledFunction | None]
    custom: NotRequired[CalledCustom | None]


class AnswerMessage(TypedDict):
    """Message of the model."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str | None]
    reasoning: NotRequired[
        Annotated[str | None, Field(description="In place of `reasoning_content`, by --reasoning-field.")]
    ]
    tool_calls: NotRequired[list[ToolCall] | None]
    function_call: NotRequired[
        Annotated[CalledFunction | None, Field(description="For whoever asks with `functions`.")]
    ]


class Choice(TypedDict):
    """One of the `n` answers."""

    index: int
    message: AnswerMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason
    cede: NotRequired[CancelNote | None]
    token_ids: NotRequired[list[int] | None]


class ChatCompletion(TypedDict):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: NotRequired[Literal["flex", "default", "priority"] | None]
    choices: list[Choice]
    usage: Usage
    timings: Timings
    prompt_token_ids: NotRequired[list[int] | None]
    prompt_logprobs: NotRequired[list[dict[str, PromptLogprob] | None] | None]


class FunctionDelta(TypedDict):
    """A piece of a call's name or arguments."""

    name: NotRequired[str | None]
    arguments: str


class CustomDelta(TypedDict):
    """A piece of a custom tool's name or input."""

    name: NotRequired[str | None]
    input: str


class ToolCallDelta(TypedDict):
    """A piece of a call; the first has its id and its name."""

    index: int
    id: NotRequired[str | None]
    type: NotRequired[Literal["function", "custom"] | None]
    function: NotRequired[FunctionDelta | None]
    custom: NotRequired[CustomDelta | None]


class Delta(TypedDict):
    """A piece of a message."""

    role: NotRequired[Literal["assistant"] | None]
    content: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]
    reasoning: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCallDelta] | None]
    function_call: NotRequired[FunctionDelta | None]


class ChunkChoice(TypedDict):
    """A piece of one of the answers."""

    index: int
    delta: Delta
    logprobs: Logprobs | None
    finish_reason: FinishReason | None
    cede: NotRequired[CancelNote | None]
    token_ids: NotRequired[list[int] | None]


class ChatCompletionChunk(TypedDict):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: NotRequired[Literal["flex", "default", "priority"] | None]
    choices: list[ChunkChoice]
    usage: NotRequired[Usage | RunningUsage | None]
    timings: NotRequired[Timings | None]
    prompt_token_ids: NotRequired[list[int] | None]
