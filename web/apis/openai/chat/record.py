"""Record of a chat, stored beside its answer: the messages that it answers, as OpenAI's API lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from web.generation.openai_format.answers.options import ChatRecord
from web.generation.openai_format.chat.answers import CalledFunction, ToolCall
from web.generation.openai_format.chat.schema import RefusalPart, TextPart

if TYPE_CHECKING:
    from web.generation.openai_format.chat.schema import ChatBody, Message

CARRIED = ("name", "tool_call_id", "tool_calls", "function_call", "reasoning_content", "reasoning")
"""Fields of a message that are shown as they were given, where they were."""


class ContentPart(TypedDict):
    """A text in a message's content."""

    type: Literal["text"]
    text: str


class StoredMessage(TypedDict):
    """A message of the request."""

    id: str
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | None
    content_parts: list[ContentPart] | None
    refusal: str | None
    name: NotRequired[str]
    tool_call_id: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    function_call: NotRequired[CalledFunction]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]


def record_of(body: ChatBody, id: str) -> ChatRecord:
    """Return what is to be stored of a body beside its answer.

    Args:
        body: of the request.
        id: of the answer; those of the messages begin with it, as at OpenAI.
    """
    messages = [_stored(message, f"{id}-{number}") for number, message in enumerate(body.messages)]
    return ChatRecord(messages, body.metadata or {})


def _stored(message: Message, id: str) -> StoredMessage:
    content, refusals = message.content, [message.refusal or ""]
    parts: list[ContentPart] | None = None
    if isinstance(content, list):
        parts = [{"type": "text", "text": part.text} for part in content if isinstance(part, TextPart)]
        refusals += [part.refusal for part in content if isinstance(part, RefusalPart)]
        content = "\n".join(part["text"] for part in parts)
    refusal = "\n".join(filter(None, refusals)) or None
    stored: StoredMessage = {
        "id": id,
        "role": message.role,
        "content": content,
        "content_parts": parts,
        "refusal": refusal,
    }
    given: Any = message.model_dump(mode="json", include={*CARRIED}, exclude_none=True)
    stored |= given
    return stored
