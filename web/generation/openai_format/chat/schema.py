"""The body of `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from web.bodies.fields import (
    PARTS,
    TEXT,
    MaxTokens,
    Metadata,
    MinTokens,
    Name,
    TemplateVariables,
    Text,
    TopLogprobs,
    text_or_parts,
    type_tag,
)
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.openai_format.chat.tool_schemas import (
    CalledFunction,
    FunctionCallField,
    Functions,
    MessageToolCall,
    ToolChoiceField,
    Tools,
)
from web.generation.openai_format.schemas import GenerationBody
from web.process.limits import MAX_CALLS, MAX_MESSAGES, MAX_PARTS

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

MEDIA = {
    "image_url": "images",
    "image": "images",
    "input_image": "images",
    "input_audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "file": "files",
    "input_file": "files",
}
"""What a part of a message holds beside text, by its type, in the words of OpenAI and of vLLM."""


# --- messages ---------------------------------------------------------------------------------------------------------


class TextPart(StrictModel):
    """A text in a message's content."""

    type: Literal["text"]
    text: Text


class RefusalPart(StrictModel):
    """A refusal in an assistant's content."""

    type: Literal["refusal"]
    refusal: Text


def _refuse_media(part: object) -> object:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in MEDIA:
        raise PydanticCustomError("media", "", {"media": MEDIA[kind]})
    return part


Part = Annotated[
    Annotated[
        Annotated[TextPart, Tag("<text>")] | Annotated[RefusalPart, Tag("<refusal>")],
        Discriminator(type_tag, custom_error_type="part", custom_error_message="part"),
    ],
    BeforeValidator(_refuse_media),
]
Content = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[Part], Field(max_length=MAX_PARTS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="content", custom_error_message="content"),
]


class Message(StrictModel):
    """One turn of a conversation."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED_IN_MESSAGES))

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: Name | None = None
    tool_call_id: Name | None = None
    tool_calls: Annotated[list[MessageToolCall], Field(max_length=MAX_CALLS, fail_fast=True)] | None = None
    function_call: CalledFunction | None = None
    refusal: Text | None = None
    reasoning_content: Text | None = None  # as DeepSeek and llama-server call it
    reasoning: Text | None = None  # as vLLM and OpenRouter do


# --- the body ---------------------------------------------------------------------------------------------------------


class Thinking(StrictModel):
    """Settings of thinking, as DeepSeek's and Z.ai's APIs and LiteLLM write them."""

    type: Literal["enabled", "disabled", "auto"]
    budget_tokens: MinTokens | None = None


class Reasoning(StrictModel):
    """Settings of thinking, as OpenRouter's API writes them."""

    effort: Effort | None = None
    enabled: bool | None = None
    max_tokens: MinTokens | None = None


class Prediction(StrictModel):
    """Probable answer: most of a file that is to be changed a little, for example."""

    type: Literal["content"]
    content: Content


class ChatBody(GenerationBody):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    tools: Tools | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    functions: Functions | None = None
    function_call: FunctionCallField | None = None

    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    thinking_budget: MinTokens | None = Field(
        None, validation_alias=AliasChoices("thinking_budget", "thinking_token_budget", "thinking_budget_tokens")
    )
    thinking: Thinking | None = None
    reasoning: Reasoning | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prediction: Prediction | None = None
    store: bool | None = None
    metadata: Metadata | None = None

    chat_template_kwargs: TemplateVariables | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


# Features of messages that cede does not have, each with the values (beside null) that ask for nothing.
UNSUPPORTED_IN_MESSAGES: dict[str, tuple[object, ...]] = {"audio": ()}
