"""Calls as a model's own template writes them: what a model that has learned from it says."""

from __future__ import annotations

import json
from typing import Any

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolCall, Turn

QUESTION = Turn("user", "Go.")
SAID = "\N{SNOWMAN}"


def rendered_call(chat: Chat, tool: Tool, arguments: dict[str, Any]) -> str:
    """Return an answer that is one call; with the end of the thought that the prompt begins, where it does."""
    call = ToolCall("abcdefghi", tool.name, json.dumps(arguments, ensure_ascii=False))
    said, whole = (
        _rendered(chat, Turn("assistant", SAID), tool),
        _rendered(chat, Turn("assistant", tool_calls=(call,)), tool),
    )
    end = said[said.rindex(SAID) + len(SAID) :]
    prompt = chat.prompt(Conversation([QUESTION], tools=[tool])).text
    thought = "</think>\n\n" if prompt.rstrip().endswith("<think>") else ""
    head = next(at for at in range(len(said)) if said[at] != whole[at])
    return thought + whole[head:].removesuffix(end)


def _rendered(chat: Chat, turn: Turn, tool: Tool) -> str:
    return chat.prompt(Conversation([QUESTION, turn], tools=[tool], add_generation_prompt=False)).text
