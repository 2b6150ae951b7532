"""Record of a chat, stored beside its answer: the messages that it answers, as OpenAI's API lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from web.generation.openai_format.answers.format import ChatRecord
from web.generation.openai_format.chat.schema import RefusalPart, TextPart

if TYPE_CHECKING:
    from web.generation.openai_format.chat.schema import ChatBody, Message

Json = dict[str, Any]

CARRIED = ("name", "tool_call_id", "tool_calls", "function_call", "reasoning_content", "reasoning")
"""Fields of a message that are shown as they were given, where they were."""


def record_of(body: ChatBody, id: str) -> ChatRecord:
    """Return what is to be stored of a body beside its answer.

    Args:
        body: of the request.
        id: of the answer; those of the messages begin with it, as at OpenAI.
    """
    messages = [_stored(message, f"{id}-{number}") for number, message in enumerate(body.messages)]
    return ChatRecord(messages, body.metadata or {})


def _stored(message: Message, id: str) -> Json:
    given = message.model_dump(mode="json", include={*CARRIED}, exclude_none=True)
    content, parts, refusals = message.content, None, [message.refusal or ""]
    if isinstance(content, list):
        parts = [{"type": "text", "text": part.text} for part in content if isinstance(part, TextPart)]
        refusals += [part.refusal for part in content if isinstance(part, RefusalPart)]
        content = "\n".join(part["text"] for part in parts)
    refusal = "\n".join(filter(None, refusals)) or None
    said = {"role": message.role, "content": content, "content_parts": parts, "refusal": refusal}
    return {"id": id} | said | given
