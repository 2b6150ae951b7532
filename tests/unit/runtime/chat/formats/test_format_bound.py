"""Values between tags where a grammar holds the call: it ends a value where the parser does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.reading.tagged_values import types_of
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
REFERRED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "c": {"$ref": "#/$defs/C"},
        "o": {"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]},
        "n": {"$ref": "#/$defs/N"},
        "all": {"allOf": [{"$ref": "#/$defs/N"}], "default": 1},
        "e": {"$ref": "#/$defs/E"},
        "same": {"$ref": "#/properties/n"},
        "again": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "circle": {"$ref": "#/$defs/circle"},
    },
    "required": ["c"],
    "$defs": {
        "C": {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
        "N": {"type": "integer"},
        "E": {"type": "string", "enum": ["red", "blue"]},
        "circle": {"anyOf": [{"$ref": "#/$defs/circle"}, {"type": "boolean"}]},
    },
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


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", TAGGED)
def test_an_argument_is_what_its_schema_refers_to(name: str, strict: bool) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    tool = Tool("f", "", REFERRED, strict=strict)
    asked = Conversation([Turn("user", "Hi")], tools=[tool], tool_choice=ToolChoice(ToolMode.REQUIRED))
    chat = Chat(ChatTemplate(family.template, {"eos_token": "</s>"}))
    prompt = chat.prompt(asked)
    assert prompt.grammar
    arguments = {"c": {"a": 1}, "o": {"a": 2}, "n": 5, "all": 6, "e": "red", "same": 7, "again": {"c": {"a": 3}}}
    text = rendered_call(chat, tool, arguments)
    assert accepts(prompt.grammar, text)
    (call,) = read(prompt.parser(), [text]).calls
    assert json.loads(call.arguments) == arguments
    for held, other in (
        ('{"a": 1}', "rubbish"),
        ("5", "five"),
        ("6", "six"),
        ("red", "green"),
        ("7", "x"),
        ("3", '"x"'),
    ):
        assert not accepts(prompt.grammar, text.replace(held, other)), other


def test_the_types_of_a_long_chain_of_references_are_not_looked_for() -> None:
    chain = {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(5000)}
    assert types_of({"$ref": "#/$defs/4990"}, {"$defs": chain | {"5000": {"type": "null"}}}) == {"null"}
    assert types_of({"$ref": "#/$defs/0"}, {"$defs": chain}) == frozenset()
    knot = {str(at): {"anyOf": [{"$ref": f"#/$defs/{other}"} for other in range(50)]} for at in range(50)}
    assert types_of({"$ref": "#/$defs/0"}, {"$defs": knot}) == frozenset()
