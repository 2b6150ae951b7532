"""Values without quotes become what the schema says that they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import Answer, Call, assert_read, read
from tests.models.chat.grammars import accepts
from tests.models.chat.templates import QWEN_XML
from tests.rows import every_row

CHAT = Chat(ChatTemplate(QWEN_XML))


def asking(**properties: Any) -> Conversation:  # noqa: ANN401
    schema = {"type": "object", "properties": properties, "required": ["a"]}
    choice = ToolChoice(ToolMode.REQUIRED)
    return Conversation([Turn("user", "Hi")], tools=[Tool("f", parameters=schema)], tool_choice=choice)


def call(value: str) -> str:
    return f"<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>"


@every_row(
    "schema, value, expected",
    [
        ({"type": "string"}, "7", "7"),
        ({"type": "string"}, ' "x"\n\n\\ \t</param', ' "x"\n\n\\ \t</param'),
        ({"type": "string"}, "", ""),
        ({}, "7", "7"),
        (True, "7", "7"),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, " 7.5 ", 7.5),
        ({"type": "number"}, "7", 7),
        ({"type": "integer"}, "seven", "seven"),
        ({"type": "number"}, "NaN", "NaN"),  # which is no JSON, though Python reads it
        ({"type": "number"}, "-Infinity", "-Infinity"),
        ({"type": "boolean"}, "True", True),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": ["string", "integer"]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"type": "array"}, "[1,\n2]", [1, 2]),
        ({"type": "array"}, '{"b": 1}', '{"b": 1}'),
        ({"type": "object"}, '{"b": {"c": "é"}}', {"b": {"c": "é"}}),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"type": 7, "anyOf": 7}, "7", "7"),
    ],
)
def test_each_type(schema: Any, value: str, expected: object) -> None:  # noqa: ANN401
    parser = CHAT.prompt(
        Conversation([Turn("user", "Hi")], tools=[Tool("f", parameters={"properties": {"a": schema}})])
    )
    text = call(value)
    (said,) = read(parser.parser(), [text]).calls
    assert json.loads(said.arguments) == {"a": expected}
    assert_read(parser.parser, text, Answer("", ["", ""], [said]))


@every_row(
    "text, arguments, rest, whole",
    [
        ("<function=f><parameter=a>1</parameter><parameter=b>\n2", '{"a": "1", "b": "2', "", False),
        ("<function=f></function> And", "{}", "And", True),
        ("<tool_call><function=f>nonsense</function>", "{", "nonsense</function>", False),
        ("<function=f><parameter=a", "{", "<parameter=a", False),
    ],
)
def test_what_is_odd(text: str, arguments: str, rest: str, whole: bool) -> None:
    parser = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")])).parser
    said = read(parser(), [text])
    assert said.calls == [Call("f", arguments, whole=whole)]
    assert rest.endswith(said.text[1])


def test_its_grammar_holds_values_to_their_types() -> None:
    grammar = CHAT.prompt(asking(a={"type": "integer"}, b={"type": "string", "enum": ["x", "y"]})).grammar
    assert grammar
    assert accepts(grammar, call("7"))
    assert accepts(grammar, call("7\n</parameter>\n<parameter=b>\ny"))
    assert not accepts(grammar, call("7\n</parameter>\n<parameter=b>\nz"))
    assert not accepts(grammar, call("seven"))
    assert not accepts(grammar, call("7").replace("=a", "=b"))
    free = CHAT.prompt(asking(a={"type": "string"})).grammar
    assert free
    assert accepts(free, call("any {text} <b>\n"))
    referred = asking(a={"$ref": "#/$defs/n"}, b={"type": "array", "items": {"$ref": "#/$defs/n"}})
    schema = {**referred.tools[0].parameters, "$defs": {"n": {"type": "integer"}}}
    grammar = CHAT.prompt(
        Conversation(referred.turns, tools=[Tool("f", parameters=schema)], tool_choice=referred.tool_choice)
    ).grammar
    assert grammar
    assert accepts(grammar, call("7\n</parameter>\n<parameter=b>\n[1]"))
    assert not accepts(grammar, call("any\n</parameter>\n<parameter=b>\n[1]"))
    assert not accepts(grammar, call('7\n</parameter>\n<parameter=b>\n["x"]'))


@pytest.mark.parametrize("broken", [{"properties": [7]}, {"properties": {"a": 7}, "required": 7}, {"anyOf": 7}])
def test_a_schema_of_another_shape_is_no_reason_to_fail(broken: dict[str, Any]) -> None:
    tools = [Tool("f", parameters=broken)]
    prompt = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=tools, tool_choice=ToolChoice(ToolMode.REQUIRED)))
    assert prompt.grammar
    assert read(prompt.parser(), [call("7")]).calls == [Call("f", '{"a": "7"}', whole=True)]
