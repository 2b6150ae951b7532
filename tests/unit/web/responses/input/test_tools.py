"""Tools, and the choice among them."""

from __future__ import annotations

import json
from typing import Any

from runtime.chat.conversation import ToolMode
from runtime.grammar.grammar import Grammar, GrammarKind
from web.bodies.strict_model import parse_model
from web.responses.input.schemas import ResponseBody
from web.responses.input.tools import choice_of, tools_of


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
    function, custom, text = tools_of(asked.tools or [])
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
        chosen = choice_of(body(tool_choice=choice).tool_choice)
        assert (chosen.mode, chosen.names) == (mode, names)
