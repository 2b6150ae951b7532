"""Tools, and the choice among them."""

from __future__ import annotations

import pytest

from runtime.chat.conversation import Tool, ToolChoice, ToolMode
from runtime.errors import RequestError
from tests.unit.web.apis.anthropic.bodies import WEATHER, Json, conversation

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
CLOCK: Json = {"type": "custom", "name": "clock", "description": "tells the time", "input_schema": {}, "strict": True}


def test_tools() -> None:
    assert list(conversation(tools=[WEATHER, CLOCK]).tools) == [
        Tool("weather", None, WEATHER["input_schema"]),
        Tool("clock", "tells the time", {}, strict=True),
    ]


@pytest.mark.parametrize(
    ("choice", "made", "parallel"),
    [
        (None, ToolChoice(), True),
        ({"type": "auto"}, ToolChoice(), True),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(), False),
        ({"type": "any"}, ToolChoice(ToolMode.REQUIRED), True),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice(ToolMode.REQUIRED), False),
        ({"type": "tool", "name": "clock"}, ToolChoice(ToolMode.REQUIRED, ("clock",)), True),
        ({"type": "none"}, ToolChoice(ToolMode.NONE), True),
    ],
)
def test_the_choice(choice: object, made: ToolChoice, parallel: bool) -> None:
    made_of = conversation(tools=[WEATHER, CLOCK], tool_choice=choice)
    assert (made_of.tool_choice, made_of.parallel_tool_calls) == (made, parallel)


def test_what_anthropics_servers_run_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "cede.web"):
        made = conversation(tools=[SEARCH, WEATHER])
    assert [tool.name for tool in made.tools] == ["weather"]
    assert caplog.messages == ["ignored a tool that Anthropic's servers run: 'web_search_20250305'"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "computer_20250124", "name": "computer"}]}, "tools.0.type"),
        ({"tools": [SEARCH, {"name": "nameless"}]}, "tools.1.input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "clock"}}, "tool_choice"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: Json, param: str) -> None:
    with pytest.raises(RequestError) as refused:
        conversation(**fields)
    assert refused.value.param == param
