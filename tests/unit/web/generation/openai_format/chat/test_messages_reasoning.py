"""Settings of thinking, in the words of each API that has some."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.chat.conversation import ReasoningChoice
from runtime.errors import RequestError
from tests.unit.web.generation.openai_format.chat.scripts import conversation

WRITTEN: list[tuple[dict[str, Any], ReasoningChoice]] = [
    ({}, ReasoningChoice()),
    ({"reasoning_effort": "none"}, ReasoningChoice(enabled=False)),
    ({"reasoning_effort": "minimal"}, ReasoningChoice(effort="minimal")),
    ({"reasoning_effort": "xhigh"}, ReasoningChoice(effort="xhigh")),
    ({"enable_thinking": False}, ReasoningChoice(enabled=False)),
    ({"chat_template_kwargs": {"enable_thinking": True}}, ReasoningChoice(enabled=True)),
    ({"thinking": {"type": "disabled"}}, ReasoningChoice(enabled=False)),
    ({"thinking": {"type": "enabled", "budget_tokens": 9}}, ReasoningChoice(enabled=True, budget=9)),
    ({"thinking_budget": 9}, ReasoningChoice(budget=9)),
    ({"thinking_token_budget": 0}, ReasoningChoice(enabled=False)),
    ({"reasoning": {"effort": "low", "max_tokens": 9}}, ReasoningChoice(effort="low", budget=9)),
]


@pytest.mark.parametrize(("fields", "meant"), WRITTEN)
def test_every_way_to_write_it_is_understood(fields: dict[str, Any], meant: ReasoningChoice) -> None:
    assert conversation(**fields).reasoning == meant


def test_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(RequestError, match="'enable_thinking' and 'reasoning_effort' contradict") as caught:
        conversation(enable_thinking=True, reasoning_effort="none")
    assert caught.value.param == "enable_thinking"


def test_the_verbosity_is_a_variable_of_the_template() -> None:
    assert conversation(verbosity="low").variables == {"verbosity": "low"}
