"""Bodies of Anthropic's API, and what they are made into."""

from __future__ import annotations

import json
from typing import Any

from runtime.chat.conversation import Conversation, Turn
from tests.fakes.engine import model
from web.apis.anthropic.answers import MessageOptions
from web.apis.anthropic.parse import parse_messages
from web.apis.anthropic.prompts.conversation import conversation_of
from web.apis.anthropic.prompts.schemas import CountBody
from web.bodies.strict_model import parse_model
from web.generation.asked import Asked

Json = dict[str, Any]

MESSAGES = "/v1/messages"
HI: Json = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
WEATHER: Json = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def user(*blocks: object) -> Json:
    """Return a user's message: of one text, or of blocks."""
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else list(blocks)}


def assistant(*blocks: object) -> Json:
    """Return a message of the assistant's."""
    return user(*blocks) | {"role": "assistant"}


def text(said: str, **more: object) -> Json:
    """Return a text block."""
    return {"type": "text", "text": said, **more}


def tool_use(call_id: str, name: str = "weather", **given: object) -> Json:
    """Return the block of a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def tool_result(call_id: str, content: object = "sunny", **more: object) -> Json:
    """Return the block of what a tool returned."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def conversation(*messages: Json, **fields: object) -> Conversation:
    """Return what a body of these messages asks of the model."""
    body = {"model": "any", "messages": list(messages) or [user("hi")], **fields}
    return conversation_of(parse_model(CountBody, json.dumps(body).encode()))


def turns(*messages: Json, **fields: object) -> list[Turn]:
    """Return the turns of that."""
    return list(conversation(*messages, **fields).turns)


def asked(**fields: object) -> Asked[MessageOptions]:
    """Return the request of a body with these fields."""
    return parse_messages(json.dumps(HI | fields).encode(), model())
