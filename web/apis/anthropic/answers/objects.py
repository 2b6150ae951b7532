"""The objects that Anthropic's endpoints answer."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field, RootModel
from typing_extensions import TypedDict

from web.bodies.json_types import Long
from web.generation.control.cancel_note import CancelNote


class ErrorDetails(TypedDict):
    """The error."""

    type: str
    message: str


class Error(TypedDict):
    """The error object, which Anthropic's clients turn into an exception."""

    type: Literal["error"]
    error: ErrorDetails
    request_id: str | None


class ModelInfo(TypedDict):
    """A model that is served, in Anthropic's words."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: Annotated[str, Field(description="RFC 3339.")]
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int


class ModelPage(TypedDict):
    """The models that are served, in Anthropic's words."""

    data: list[ModelInfo]
    first_id: str
    last_id: str
    has_more: Literal[False]


class OutputTokensDetails(TypedDict):
    """Details of the tokens of the answer."""

    thinking_tokens: int


class Usage(TypedDict):
    """Usage of the request; the tokens of its prompt are the sum of the first three."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails


class Text(TypedDict):
    """A text."""

    type: Literal["text"]
    text: Long[str]


class Thought(TypedDict):
    """The model's thoughts before its answer."""

    type: Literal["thinking"]
    thinking: Long[str]
    signature: str


class ToolUse(TypedDict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: Long[dict[str, object]]


Block = Annotated[Text | Thought | ToolUse, Field(discriminator="type")]
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class Message(TypedDict):
    """A message; at the beginning of a stream it is empty."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage
    cede: NotRequired[CancelNote]


class TokenCount(TypedDict):
    """Number of tokens of a prompt."""

    input_tokens: int


# --- the events of a stream -------------------------------------------------------------------------------------------


class MessageStart(TypedDict):
    """The message begins."""

    type: Literal["message_start"]
    message: Message


class BlockStart(TypedDict):
    """A content block begins."""

    type: Literal["content_block_start"]
    index: int
    content_block: Block


class TextDelta(TypedDict):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    """More of a thought."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """The signature of a thought."""

    type: Literal["signature_delta"]
    signature: str


class InputDelta(TypedDict):
    """More of the JSON of a call's input."""

    type: Literal["input_json_delta"]
    partial_json: str


Delta = Annotated[TextDelta | ThinkingDelta | SignatureDelta | InputDelta, Field(discriminator="type")]


class BlockDelta(TypedDict):
    """More of the content block that is open."""

    type: Literal["content_block_delta"]
    index: int
    delta: Delta


class BlockStop(TypedDict):
    """The content block ends."""

    type: Literal["content_block_stop"]
    index: int


class Stopped(TypedDict):
    """Reason why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The message ends: why, and what it took."""

    type: Literal["message_delta"]
    delta: Stopped
    usage: Usage
    cede: NotRequired[CancelNote]


class MessageStop(TypedDict):
    """End of the stream: nothing follows."""

    type: Literal["message_stop"]


class Ping(TypedDict):
    """A sign of life, which may come at any time after the beginning."""

    type: Literal["ping"]


Event = Annotated[
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | Error,
    Field(discriminator="type"),
]


class StreamEvent(RootModel[Event]):
    """One event of a stream, whose name is its type."""
