"""Conversations as token ids, and the parameters of tools that declare none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_characters, encode_prompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runtime.chat.chat import ChatPrompt
    from runtime.chat.conversation import Conversation, Turn
    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds

RESERVED_TEMPLATE_NAMES = frozenset({"messages", "add_generation_prompt", "tools"})
"""Variables of the chat template that a client may not set."""


def conversation_prompt(
    conversation: Conversation, model: ServedModel, param: str = "messages", *, keep: int | None = None
) -> tuple[TokenIds, ChatPrompt]:
    """Return the token ids of a conversation, and how its answer is to be read.

    Args:
        conversation: what the client asks.
        model: to be served from.
        param: the field of the body that holds the turns, for errors.
        keep: how many of the tokens are kept, the last ones; None for all.

    Raises:
        RequestError: it cannot be rendered, or does not fit into the context.
    """
    prompt = render(conversation, model, param)
    ids = encode_prompt(prompt.text, model, param, add_special_tokens=False, keep=keep)  # the template has written them
    return ids, prompt


@contextmanager
def errors_named(params: Mapping[str, str]) -> Iterator[None]:
    """Have errors name a body's fields as its API does.

    Args:
        params: what is called otherwise in it than in a chat's body.
    """
    try:
        yield
    except RequestError as error:
        if (name := params.get(error.param or "")) is None:
            raise
        message = str(error).replace(f"'{error.param}'", f"'{name}'", 1)
        raise RequestError(message, param=name, code=error.code) from None


def render(conversation: Conversation, model: ServedModel, param: str = "messages") -> ChatPrompt:
    """Return a conversation as a text that the model goes on with.

    Args:
        conversation: what the client asks.
        model: to be served from.
        param: the field of the body that holds the turns, for errors.

    Raises:
        RequestError: it cannot be rendered, or is longer than any text that fits into the context.
    """
    if model.chat is None:
        raise RequestError("This model has no chat template; use /v1/completions.", param=param)
    if clash := RESERVED_TEMPLATE_NAMES & conversation.variables.keys():
        raise RequestError(f"'chat_template_kwargs' must not set '{min(clash)}'.", param="chat_template_kwargs")
    # A template may drop some of it; but nobody sends more than fits in order to have it dropped.
    check_characters(sum(map(_characters, conversation.turns)), model, param)
    return model.chat.prompt(conversation)


def _characters(turn: Turn) -> int:
    calls = sum(len(call.name) + len(call.arguments) for call in turn.tool_calls)
    return len(turn.content or "") + len(turn.reasoning or "") + calls


NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""

CUSTOM_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The schema of a custom tool, whose input is a text."""
