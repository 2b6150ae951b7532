"""Conversations that are too long: their beginning is dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.bodies.prompt_tokens import TOO_LONG
from web.generation.prompts import conversation_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.chat.chat import ChatPrompt
    from runtime.chat.conversation import Conversation, Turn
    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds


def fitting_prompt(conversation: Conversation, model: ServedModel, param: str) -> tuple[TokenIds, ChatPrompt]:
    """Return the prompt of as much of a conversation as fits, as `conversation_prompt` does.

    What is left begins with a user's turn, so that no output of a tool has lost its call; system turns stay.  It is
    found by bisection, with a handful of prompts.

    Args:
        conversation: what the client asks.
        model: to be served from.
        param: the field of the body that holds the turns, for errors.

    Raises:
        RequestError: not even its last user's turn, with what follows, fits; or as `conversation_prompt`.
    """
    starts = [0, *_later_starts(conversation.turns)]
    fits, found = len(starts) - 1, None
    least = 0
    while least < fits:
        middle = (least + fits) // 2
        try:
            found = conversation_prompt(_from(conversation, starts[middle]), model, param)
            fits = middle
        except RequestError as error:
            if error.code != TOO_LONG:
                raise
            least, found = middle + 1, None
    return found or conversation_prompt(_from(conversation, starts[fits]), model, param)


def _later_starts(turns: Sequence[Turn]) -> list[int]:
    """Return where a shorter conversation may begin: at each user's turn that something precedes."""
    users = [number for number, turn in enumerate(turns) if turn.role == "user"]
    return users[1:]


def _from(conversation: Conversation, start: int) -> Conversation:
    kept = [turn for number, turn in enumerate(conversation.turns) if number >= start or turn.role == "system"]
    return replace(conversation, turns=kept)
