"""Answers about stored chat completions."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from web.apis.openai.chat.record import StoredMessage
from web.bodies.json_types import Long
from web.generation.openai_format.chat.answers import ChatCompletion


class StoredChatCompletion(ChatCompletion):
    """A chat completion as it was answered, and its metadata."""

    metadata: dict[str, str]


class CompletionList(TypedDict):
    """A page of stored chat completions."""

    object: Literal["list"]
    data: list[Long[StoredChatCompletion]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedCompletion(TypedDict):
    """A chat completion that is stored no longer."""

    id: str
    object: Literal["chat.completion.deleted"]
    deleted: Literal[True]


class MessageList(TypedDict):
    """A page of the messages of a request."""

    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool
