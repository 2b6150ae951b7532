"""The answers of the Responses API, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from web.generation.control.cancel_note import CancelNote
from web.openapi.operations import Answer


class Alternative(Answer):
    """A token that was likely."""

    token: str
    bytes: list[int]
    logprob: float


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


class Part(Answer):
    """A text in an item."""

    type: Literal["output_text", "reasoning_text", "input_text", "refusal", "text", "summary_text"]
    text: str | None = None
    refusal: str | None = None
    annotations: list[dict[str, Any]] | None = None
    logprobs: list[TokenLogprobs] | None = None


class Item(Answer):
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
    status: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: list[Part] | str | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = Field(None, description="Of a function call, as a JSON text.")
    input: str | None = Field(None, description="Of a custom tool's call.")
    output: list[Part] | str | None = Field(None, description="What a tool returned.")


class InputTokensDetails(Answer):
    """Details of the prompt's tokens."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(Answer):
    """Details of the tokens that were generated."""

    reasoning_tokens: int


class Usage(Answer):
    """Usage of the response."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class Failure(Answer):
    """Reason why a response failed."""

    code: str
    message: str


class Incompleteness(Answer):
    """Reason why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class ReasoningConfig(Answer):
    """Settings of the model's thinking."""

    effort: str | None
    summary: None


class TextConfig(Answer):
    """Form of the text."""

    format: dict[str, Any]
    verbosity: Literal["low", "medium", "high"]


class ConversationReference(Answer):
    """The conversation that a response went on with."""

    id: str


class Response(Answer):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    conversation: ConversationReference | None = Field(
        description="To which the input and the output were added; null where nothing was."
    )
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
    cede: CancelNote | None = None


class Event(Answer):
    """An event of a stream."""

    type: str
    sequence_number: int
    response: Response | None = None
    item: Item | None = None
    part: Part | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    delta: str | None = None
    text: str | None = None
    logprobs: list[TokenLogprobs] | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None


class DeletedResponse(Answer):
    """A response that is stored no longer."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(Answer):
    """A page of items."""

    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Conversation(Answer):
    """A stored conversation, without its items."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class DeletedConversation(Answer):
    """A conversation that is stored no longer."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class InputTokens(Answer):
    """Number of tokens of a prompt."""

    object: Literal["response.input_tokens"]
    input_tokens: int
