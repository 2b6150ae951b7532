"""Required calls behind whitespace, which templates write and so models do: it begins a call as well as a thought."""

from __future__ import annotations

import functools
import json

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.agent.families import FAMILIES, Family
from tests.models.chat.answers import read
from tests.models.chat.grammars import accepts, added_tokens

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = Tool("f", "", SCHEMA)
CALL = [("f", {"a": "b"})]
ASKED = Conversation([Turn("user", "Hi")], tools=[TOOL], tool_choice=ToolChoice(ToolMode.REQUIRED))


@functools.cache
def markers() -> tuple[str, ...]:
    """Return those of all families: one vocabulary, which takes a second to make."""
    chats = (Chat(ChatTemplate(family.template, {"eos_token": "</s>"})) for family in FAMILIES)
    return tuple(sorted({mark for chat in chats for mark in chat.prompt(ASKED).visible}))


@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
@pytest.mark.parametrize("family", [one for one in FAMILIES if one.name != "harmony"], ids=lambda family: family.name)
def test_a_required_call_may_stand_behind_whitespace(family: Family, tokens: bool) -> None:
    marks = markers() if tokens else ()
    prompt = Chat(ChatTemplate(family.template, {"eos_token": "</s>"}), added_tokens(*marks)).prompt(ASKED)
    assert prompt.grammar
    begun = prompt.text.rstrip().endswith("<think>")
    for spaces in ("", " ", "\n", "\n\n"):
        thought = "so\n</think>" if begun else ""
        text = f"{thought}{spaces}{family.write(CALL)}"
        assert accepts(prompt.grammar, text, *marks), text
        (call,) = read(prompt.parser(), [text]).calls
        assert (call.name, json.loads(call.arguments)) == CALL[0]
        if family.thought and not begun:
            opening, closing = family.thought
            assert accepts(prompt.grammar, f"{spaces}{opening}so{closing}{text}", *marks)
