"""Objects whose keys have no quotes: what is odd in them, and the grammar of their values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import Answer, Call, assert_read
from tests.models.chat.grammars import accepts
from tests.models.chat.templates import FUNCTION_GEMMA

CHAT = Chat(ChatTemplate(FUNCTION_GEMMA))


def call(arguments: str) -> str:
    return f"<start_function_call>call:f{{{arguments}}}<end_function_call>"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a:<escape>x, {y}: [z]\n<escape>", {"a": "x, {y}: [z]\n"}),
        ("<escape>a b<escape>: 1 , c : [ 1, 2 ,] ,", {"a b": 1, "c": [1, 2]}),
        ("a:None,b:TRUE,c:-1.5e3", {"a": None, "b": True, "c": -1500.0}),
        ("a:Oslo and more,b:01", {"a": "Oslo and more", "b": "01"}),
        ("a:{b:{},c:[[]]}", {"a": {"b": {}, "c": [[]]}}),
        ("", {}),
    ],
)
def test_what_is_a_call(written: str, expected: dict[str, Any]) -> None:
    prompt = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")]))
    said = json.dumps(expected, ensure_ascii=False).replace("-1500.0", "-1.5e3")
    assert_read(prompt.parser, call(written), Answer(text=["", ""], calls=[Call("f", said, whole=True)]))


@pytest.mark.parametrize(
    ("text", "arguments", "rest"),
    [
        (call("a:1 b"), '{"a": "1 b"}', ""),
        (call("a:[1}"), '{"a": [1', "}}<end_function_call>"),
        (call("a"), "{", "}<end_function_call>"),
        ("<start_function_call>call:f{a:<escape>x", '{"a": "x', ""),
    ],
)
def test_what_stops_in_the_middle(text: str, arguments: str, rest: str) -> None:
    prompt = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")]))
    whole = arguments.endswith("}")
    assert_read(prompt.parser, text, Answer(text=["", rest], calls=[Call("f", arguments, whole=whole)]))


def test_an_object_within_many_others() -> None:
    prompt = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")]))
    parser = prompt.parser()
    for _ in range(100_000):
        parser.push("<start_function_call>call:f{a:" if _ == 0 else "[")
    assert parser.finish() == []


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "z": {"type": "integer", "maximum": 9},
        "b": {"enum": ["x", "y"]},
        "a": {"$ref": "#/$defs/tree"},
        "o": {"type": "object", "properties": {"p": {"type": "string"}}},
        "l": {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"type": "string"}]}},
        "any": {},
    },
    "required": ["b"],
    "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}


def test_its_grammar() -> None:
    choice = ToolChoice(ToolMode.REQUIRED)
    tools = [Tool("f", parameters=SCHEMA)]
    grammar = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=tools, tool_choice=choice)).grammar
    assert grammar
    x = "b:<escape>x<escape>"
    right = [
        x,
        f"a:[[],[[]]],any:{{q:[1,<escape>t<escape>]}},{x},l:[true,<escape>s<escape>],o:{{}},z:7",
        f"{x},o:{{p:<escape><escape>}}",
        f"{x},z:-3",
    ]
    wrong = [
        "",
        "z:7",
        "b:<escape>w<escape>",
        f"{x},z:10",
        f"{x},l:[1]",
        f"a:[1],{x}",
        f"{x},o:{{p:1}}",
        f"{x},",
        "b:x",
    ]
    assert [accepts(grammar, call(text)) for text in right] == [True] * len(right)
    assert [accepts(grammar, call(text)) for text in wrong] == [False] * len(wrong)
    free = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")], tool_choice=choice)).grammar
    assert free
    assert accepts(free, call("a:1,b:{}"))
    assert accepts(free, call(""))
