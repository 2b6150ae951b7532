"""The answers of the Responses API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.generation.control.cancel_note import CancelNote


class Alternative(TypedDict):
    """A token that was likely."""

    token: str
    bytes: list[int]
    logprob: float


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


class Part(TypedDict):
    """A text in an item."""

    type: Literal["output_text", "reasoning_text", "input_text", "refusal", "text", "summary_text"]
    text: NotRequired[str | None]
    refusal: NotRequired[str | None]
    annotations: NotRequired[list[dict[str, Any]] | None]
    logprobs: NotRequired[list[TokenLogprobs] | None]


class Item(TypedDict):
    """An item of an output or an input: a message, a call, what it returned, or a thought."""

    id: str
    type: Literal[
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    status: NotRequired[str | None]
    role: NotRequired[Literal["user", "assistant", "system", "developer"] | None]
    content: NotRequired[list[Part] | str | None]
    summary: NotRequired[list[Part] | None]
    encrypted_content: NotRequired[str | None]
    call_id: NotRequired[str | None]
    name: NotRequired[str | None]
    arguments: NotRequired[Annotated[str | None, Field(description="Of a function call, as a JSON text.")]]
    input: NotRequired[Annotated[str | None, Field(description="Of a custom tool's call.")]]
    output: NotRequired[Annotated[list[Part] | str | None, Field(description="What a tool returned.")]]


class InputTokensDetails(TypedDict):
    """Details of the prompt's tokens."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(TypedDict):
    """Details of the tokens that were generated."""

    reasoning_tokens: int


class Usage(TypedDict):
    """Usage of the response."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class Failure(TypedDict):
    """Reason why a response failed."""

    code: str
    message: str


class Incompleteness(TypedDict):
    """Reason why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class ReasoningConfig(TypedDict):
    """Settings of the model's thinking."""

    effort: str | None
    summary: None


class TextConfig(TypedDict):
    """Form of the text."""

    format: dict[str, Any]
    verbosity: Literal["low", "medium", "high"]


class ConversationReference(TypedDict):
    """The conversation that a response went on with."""

    id: str


class Response(TypedDict):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    conversation: Annotated[
        ConversationReference | None,
        Field(description="To which the input and the output were added; null where nothing was."),
    ]
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    error: Failure | None
    incomplete_details: Incompleteness | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    output: list[Item]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningConfig
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    text: TextConfig
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    usage: Usage | None
    user: str | None
    cede: NotRequired[CancelNote | None]


class Event(TypedDict):
    """An event of a stream."""

    type: str
    sequence_number: int
    response: NotRequired[Response | None]
    item: NotRequired[Item | None]
    part: NotRequired[Part | None]
    item_id: NotRequired[str | None]
    output_index: NotRequired[int | None]
    content_index: NotRequired[int | None]
    delta: NotRequired[str | None]
    text: NotRequired[str | None]
    logprobs: NotRequired[list[TokenLogprobs] | None]
    name: NotRequired[str | None]
    arguments: NotRequired[str | None]
    input: NotRequired[str | None]


class DeletedResponse(TypedDict):
    """A response that is stored no longer."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(TypedDict):
    """A page of items."""

    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Conversation(TypedDict):
    """A stored conversation, without its items."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class DeletedConversation(TypedDict):
    """A conversation that is stored no longer."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class InputTokens(TypedDict):
    """Number of tokens of a prompt."""

    object: Literal["response.input_tokens"]
    input_tokens: int
