"""The answers of the Responses API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, RootModel
from typing_extensions import TypedDict

from web.bodies.json_encoding import Long
from web.generation.answer_parts import TokenLogprobs
from web.generation.control.fields import CancelNote


class Part(TypedDict):
    """A text in an item."""

    type: Literal["output_text", "reasoning_text", "input_text", "refusal", "text", "summary_text"]
    text: NotRequired[Long[str]]
    refusal: NotRequired[str]
    annotations: NotRequired[list[dict[str, Any]]]
    logprobs: NotRequired[Long[list[TokenLogprobs]]]


class Message(TypedDict):
    """A message."""

    id: str
    type: Literal["message"]
    role: Literal["user", "assistant", "system", "developer"]
    status: str
    content: list[Part]


class Thought(TypedDict):
    """The model's thoughts."""

    id: str
    type: Literal["reasoning"]
    status: NotRequired[str]
    summary: list[Part]
    content: NotRequired[list[Part]]
    encrypted_content: NotRequired[str]


class Called(TypedDict):
    """The tool that a call is of."""

    call_id: str
    namespace: NotRequired[str]
    name: str


class FunctionCall(Called):
    """A call of a function."""

    id: str
    type: Literal["function_call"]
    status: str
    arguments: Annotated[Long[str], Field(description="A JSON text.")]


class CustomCall(Called):
    """A call of a custom tool."""

    id: str
    type: Literal["custom_tool_call"]
    status: str
    input: Long[str]


class ToolOutput(TypedDict):
    """What a tool returned."""

    id: str
    type: Literal["function_call_output", "custom_tool_call_output"]
    status: str
    call_id: str
    namespace: NotRequired[str]
    name: NotRequired[str]
    output: list[Part] | str


AnyItem = Annotated[Message | Thought | FunctionCall | CustomCall | ToolOutput, Field(discriminator="type")]


class Item(RootModel[AnyItem]):
    """An item of an output or an input."""


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


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


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


class AskedFields(TypedDict):
    """Fields of a response that repeat what was asked, and when; the end may change two of them."""

    id: str
    object: Literal["response"]
    created_at: int
    background: bool
    completed_at: int | None
    conversation: Annotated[
        ConversationReference | None,
        Field(description="To which the input and the output were added; null where nothing was."),
    ]
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
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
    user: str | None


class Response(AskedFields):
    """A response."""

    status: Status
    error: Failure | None
    incomplete_details: Incompleteness | None
    output: list[AnyItem]
    usage: Usage | None
    cede: NotRequired[CancelNote]


class ItemEvent(TypedDict):
    """An event that tells of an item."""

    type: str
    response: NotRequired[Response]
    item: NotRequired[AnyItem]
    part: NotRequired[Part]
    item_id: NotRequired[str]
    output_index: NotRequired[int]
    content_index: NotRequired[int]
    delta: NotRequired[str]
    text: NotRequired[Long[str]]
    logprobs: NotRequired[Long[list[TokenLogprobs]]]
    name: NotRequired[str]
    arguments: NotRequired[Long[str]]
    input: NotRequired[Long[str]]


class Event(ItemEvent):
    """An event of a stream."""

    sequence_number: int


class DeletedResponse(TypedDict):
    """A response that is stored no longer."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(TypedDict):
    """A page of items."""

    object: Literal["list"]
    data: list[AnyItem]
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
