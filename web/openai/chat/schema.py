"""The body of `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from web.bodies.fields import PARTS, TEXT, MaxTokens, Name, TemplateVariables, Text, TopLogprobs, text_or_parts
from web.bodies.strict_model import StrictModel, show_unsupported
from web.limits import MAX_MESSAGES, MAX_PARTS
from web.openai.schemas import GenerationBody


class TextPart(StrictModel):
    """A text in a message's content.  Parts of other types, images and audio, are refused: no model here reads them."""

    type: Literal["text"]
    text: Text


Content = Annotated[
    Annotated[Text, Tag(TEXT)] | Annotated[list[TextPart], Field(max_length=MAX_PARTS, fail_fast=True), Tag(PARTS)],
    Discriminator(text_or_parts, custom_error_type="content", custom_error_message="content"),
]


class Message(StrictModel):
    """One turn of a conversation."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED_IN_MESSAGES))

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content
    name: Name | None = None
    tool_call_id: Name | None = None


class ChatBody(GenerationBody):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    chat_template_kwargs: TemplateVariables | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


# Features of messages that cede does not have, each with the values (beside null) that ask for nothing.
UNSUPPORTED_IN_MESSAGES: dict[str, tuple[object, ...]] = {
    "tool_calls": ([],),
    "function_call": (),
    "audio": (),
}
