"""Tools in every form in which a chat's body can hold them."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.chat.conversation import Tool, ToolChoice, ToolMode
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from tests.unit.web.generation.openai_format.chat.scripts import SHELL, WEATHER, conversation, scripted
from web.generation.prompts import CUSTOM_PARAMETERS, NO_PARAMETERS

NAMED = {"type": "function", "function": {"name": "weather"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
CHOICES: list[tuple[Any, ToolChoice]] = [
    (None, ToolChoice()),
    ("auto", ToolChoice()),
    ("none", ToolChoice(ToolMode.NONE)),
    ("required", ToolChoice(ToolMode.REQUIRED)),
    (NAMED, ToolChoice(ToolMode.REQUIRED, ("weather",))),
    ({"type": "custom", "custom": {"name": "shell"}}, ToolChoice(ToolMode.REQUIRED, ("shell",))),
    (ALLOWED, ToolChoice(ToolMode.REQUIRED, ("weather",))),
]


@pytest.mark.parametrize(("written", "meant"), CHOICES)
def test_every_choice_of_tools_is_understood(written: object, meant: ToolChoice) -> None:
    assert conversation(tools=[WEATHER, SHELL], tool_choice=written).tool_choice == meant


def test_functions_and_custom_tools() -> None:
    lark = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": True}},
        {"type": "function", "function": {"name": "g"}},
        {"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}},
        {"type": "custom", "custom": {"name": "l", "format": lark}},
    ]
    assert list(conversation(tools=tools).tools) == [
        Tool("f", "d", schema, strict=True),
        Tool("g", None, NO_PARAMETERS),
        Tool("c", None, CUSTOM_PARAMETERS, custom=True),
        Tool("l", None, CUSTOM_PARAMETERS, custom=True, grammar=Grammar(GrammarKind.LARK, "start: /a/")),
    ]


def test_what_the_models_format_demands_of_the_answer_reaches_the_engine() -> None:
    assert scripted(tools=[WEATHER]).request.grammar == Grammar(GrammarKind.REGEX, ".*")


def test_several_calls_may_be_made_unless_the_body_says_otherwise() -> None:
    assert conversation(tools=[WEATHER]).parallel_tool_calls
    assert not conversation(tools=[WEATHER], parallel_tool_calls=False).parallel_tool_calls


def test_the_older_functions_are_tools_of_which_one_is_called() -> None:
    functions = [WEATHER["function"]]
    older = conversation(functions=functions, function_call={"name": "weather"})
    assert [tool.name for tool in older.tools] == ["weather"]
    assert older.tool_choice == ToolChoice(ToolMode.REQUIRED, ("weather",))
    assert not older.parallel_tool_calls
    assert conversation(functions=functions, function_call="none").callable_tools == []
    with pytest.raises(RequestError, match="exclude each other"):
        conversation(functions=functions, tools=[WEATHER])
