"""Answers about stored chat completions."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from web.generation.openai_format.chat.answers import CalledFunction, ChatCompletion, ToolCall


class StoredChatCompletion(ChatCompletion):
    """A chat completion as it was answered, and its metadata."""

    metadata: dict[str, str]


class CompletionList(TypedDict):
    """A page of stored chat completions."""

    object: Literal["list"]
    data: list[StoredChatCompletion]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedCompletion(TypedDict):
    """A chat completion that is stored no longer."""

    id: str
    object: Literal["chat.completion.deleted"]
    deleted: Literal[True]


class TextPart(TypedDict):
    """A text in a message's content."""

    type: Literal["text"]
    text: str


class StoredMessage(TypedDict):
    """A message of the request."""

    id: str
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | None
    content_parts: list[TextPart] | None
    refusal: str | None
    name: NotRequired[str | None]
    tool_call_id: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    function_call: NotRequired[CalledFunction | None]
    reasoning_content: NotRequired[str | None]
    reasoning: NotRequired[str | None]


class MessageList(TypedDict):
    """A page of the messages of a request."""

    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool
