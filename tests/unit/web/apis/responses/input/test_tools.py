"""Tools, and the choice among them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.conversation import ToolMode
from runtime.grammar.grammar import Grammar, GrammarKind
from web.apis.responses.input.schemas import ResponseBody
from web.apis.responses.input.tools import choice_of, shown_name, tools_of
from web.bodies.strict_model import parse_model


def body(**fields: Any) -> ResponseBody:  # noqa: ANN401
    return parse_model(ResponseBody, json.dumps(fields).encode())


def test_tools_and_the_choice_among_them() -> None:
    asked = body(
        tools=[
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
            {
                "type": "custom",
                "name": "c",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"},
            },
            {"type": "custom", "name": "t"},
        ]
    )
    offered = tools_of(asked.tools or [])
    function, custom, text = offered.tools
    assert (function.parameters, function.strict, function.custom) == ({"type": "object"}, True, False)
    assert (custom.custom, custom.grammar) == (True, Grammar(GrammarKind.LARK, "start: /a/"))
    assert (text.custom, text.grammar, list(text.parameters["properties"])) == (True, None, ["input"])
    for choice, mode, names in (
        (None, ToolMode.AUTO, None),
        ("none", ToolMode.NONE, None),
        ({"type": "custom", "name": "c"}, ToolMode.REQUIRED, ("c",)),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            ToolMode.AUTO,
            ("f",),
        ),
    ):
        chosen = choice_of(body(tool_choice=choice).tool_choice, offered)
        assert (chosen.mode, chosen.names) == (mode, names)


SPACE = {
    "type": "namespace",
    "name": "mcp__files",
    "description": "Files of the user's.",
    "tools": [
        {"type": "function", "name": "read_file", "description": "Reads.", "defer_loading": True},
        {"type": "custom", "name": "patch"},
        {"type": "web_search"},
    ],
}


def test_tools_in_a_namespace_are_tools_whose_name_has_both() -> None:
    offered = tools_of(body(tools=[SPACE, {"type": "function", "name": "f"}]).tools or [])
    assert [tool.name for tool in offered.tools] == ["mcp__files__read_file", "mcp__files__patch", "f"]
    assert offered.tools[0].description == "Reads.\n\nmcp__files: Files of the user's."
    assert offered.tools[1].custom
    assert offered.apart["mcp__files__patch"] == ("mcp__files", "patch")
    assert shown_name("mcp__files__", "patch") == "mcp__files__patch"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "function", "name": "read_file", "namespace": "mcp__files"}, ("mcp__files__read_file",)),
        ({"type": "function", "name": "read_file"}, ("mcp__files__read_file",)),
        ({"type": "function", "name": "mcp__files__read_file"}, ("mcp__files__read_file",)),
        ({"type": "custom", "name": "patch"}, ("mcp__files__patch",)),
        (
            {"type": "allowed_tools", "tools": [{"type": "namespace", "name": "mcp__files"}]},
            ("mcp__files__read_file", "mcp__files__patch"),
        ),
        ({"type": "function", "name": "none"}, ("none",)),
    ],
)
def test_a_choice_may_name_a_tool_of_a_namespace_or_all_of_it(choice: dict[str, Any], names: tuple[str, ...]) -> None:
    offered = tools_of(body(tools=[SPACE]).tools or [])
    assert choice_of(body(tool_choice=choice).tool_choice, offered).names == names
