"""Values between tags where a grammar holds the call: it ends a value where the parser does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.agent.families import FAMILIES
from tests.models.chat.answers import read
from tests.models.chat.grammars import accepts, added_tokens
from tests.models.chat.rendered import rendered_call

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}},
    "required": ["a"],
}
TAGGED = {
    "qwen-xml": ("</parameter>", ("<tool_call>", "</tool_call>")),
    "seed": ("</parameter>", ("<seed:tool_call>", "</seed:tool_call>")),
    "glm": (
        "</arg_value>",
        ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    "minimax": ("</parameter>", ("<minimax:tool_call>", "</minimax:tool_call>")),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
@pytest.mark.parametrize("name", TAGGED)
def test_a_bound_value_may_hold_its_own_end_tag(name: str, tokens: bool, strict: bool) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    end, markers = TAGGED[name]
    added = markers if tokens else ()
    tool = Tool("f", "", SCHEMA, strict=strict)
    asked = Conversation([Turn("user", "Hi")], tools=[tool], tool_choice=ToolChoice(ToolMode.REQUIRED))
    chat = Chat(ChatTemplate(family.template, {"eos_token": "</s>"}), added_tokens(*added))
    prompt = chat.prompt(asked)
    assert prompt.grammar
    for arguments in (
        {"a": f'return "{end}"\nmore'},
        {"a": f"{end}{end} \n{end}x", "b": 7, "c": f"two {end} <b>"},
        {"a": f"a {end} {{", "c": "plain"},
        {"a": "", "b": -1},
    ):
        text = rendered_call(chat, tool, arguments)
        assert accepts(prompt.grammar, text, *added), text
        (call,) = read(prompt.parser(), [text]).calls
        assert call.whole
        assert json.loads(call.arguments) == arguments
    two = rendered_call(chat, tool, {"a": f"x{end}\n", "b": 7})
    assert not accepts(prompt.grammar, two.replace("7", "seven"), *added)
