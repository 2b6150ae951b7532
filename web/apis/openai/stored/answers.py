"""Answers about stored chat completions, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Literal

from web.generation.openai_format.chat.answers import CalledFunction, ChatCompletion, ToolCall
from web.openapi.operations import Answer


class StoredChatCompletion(ChatCompletion):
    """A chat completion as it was answered, and its metadata."""

    metadata: dict[str, str]


class CompletionList(Answer):
    """A page of stored chat completions."""

    object: Literal["list"]
    data: list[StoredChatCompletion]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedCompletion(Answer):
    """A chat completion that is stored no longer."""

    id: str
    object: Literal["chat.completion.deleted"]
    deleted: Literal[True]


class TextPart(Answer):
    """A text in a message's content."""

    type: Literal["text"]
    text: str


class StoredMessage(Answer):
    """A message of the request."""

    id: str
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | None
    content_parts: list[TextPart] | None
    refusal: str | None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class MessageList(Answer):
    """A page of the messages of a request."""

    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool
