"""The messages of a chat's body as a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.conversation import Conversation, Turn
from runtime.errors import RequestError
from web.bodies.strict_model import refuse_unsupported
from web.openai.chat.schema import UNSUPPORTED_IN_MESSAGES

if TYPE_CHECKING:
    from web.openai.chat.schema import ChatBody, Message


def conversation_of(body: ChatBody) -> Conversation:
    """Return what a chat's body asks of the model.

    Raises:
        RequestError: its fields contradict each other, or ask for what cede does not do.
    """
    if body.continue_final_message and body.add_generation_prompt:
        raise RequestError(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            param="continue_final_message",
        )
    return Conversation(
        turns=[_turn(message, index) for index, message in enumerate(body.messages)],
        variables=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final=bool(body.continue_final_message),
    )


def _turn(message: Message, index: int) -> Turn:
    """Return a message with `system` for OpenAI's `developer`, and content as one text."""
    refuse_unsupported(message, UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content = message.content
    return Turn(
        role="system" if message.role == "developer" else message.role,
        content=content if isinstance(content, str) else "\n".join(part.text for part in content),
        tool_call_id=message.tool_call_id,
        name=message.name,
    )
