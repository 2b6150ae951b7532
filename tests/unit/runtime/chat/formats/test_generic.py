"""Tools for templates that know none."""

from __future__ import annotations

import dataclasses

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolCall, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.templates import CHATML, LISTED

ALTERNATING = """
{%- for message in messages %}
    {%- if message.role != ("assistant" if loop.index0 % 2 else "user") %}{{- raise_exception("roles alternate") }}
    {%- endif %}
    {{- "[" + message.role + "]" + message.content }}
{%- endfor %}
"""
THOUGHTFUL = """
{%- for message in messages %}
    {{- "[" + message.role + "]" }}
    {%- if message.reasoning_content %}{{- "<think>" + message.reasoning_content + "</think>" }}{% endif %}
    {{- message.content }}
{%- endfor %}
"""
TOOL = Tool("now", "The time.", {"type": "object", "properties": {"zone": {"type": "string"}}})
HISTORY = (
    Turn("user", "What time is it?"),
    Turn("assistant", "I look.", tool_calls=(ToolCall("1", "now", '{"zone": "CET"}'), ToolCall("2", "now", "{}"))),
    Turn("tool", "12:00", tool_call_id="1"),
    Turn("tool", "11:00", tool_call_id="2"),
)


def prompt(template: str, *turns: Turn, choice: ToolChoice | None = None) -> str:
    conversation = Conversation(turns, tools=[TOOL], tool_choice=choice or ToolChoice())
    return Chat(ChatTemplate(template)).prompt(conversation).text


def test_the_system_turn_describes_them_behind_what_it_says() -> None:
    text = prompt(CHATML, Turn("system", "Be brief."), Turn("user", "Hi"))
    assert text.startswith("<|im_start|>system\nBe brief.\n\nYou can call these functions")
    assert '{"name": "now", "description": "The time.", "parameters": {"type": "object"' in text
    assert '<tool_call>\n{"name": "the function\'s name", "arguments": {' in text
    assert prompt(CHATML, Turn("user", "Hi")).startswith("<|im_start|>system\nYou can call")


def test_earlier_calls_are_text_and_their_results_the_user_s() -> None:
    text = prompt(CHATML, *HISTORY, Turn("user", "And?"))
    assert 'I look.\n<tool_call>\n{"name": "now", "arguments": {"zone": "CET"}}\n</tool_call>\n<tool_call>' in text
    results = "<tool_response>\n12:00\n</tool_response>\n<tool_response>\n11:00\n</tool_response>"
    assert f"<|im_start|>user\n{results}\nAnd?<|im_end|>" in text


def test_a_template_whose_roles_alternate_and_that_has_no_system_turn() -> None:
    text = prompt(ALTERNATING, *HISTORY)
    assert text.startswith("[user]You can call these functions")
    assert "\n\nWhat time is it?[assistant]I look." in text


def test_what_may_not_be_called_is_not_described() -> None:
    assert "functions" not in prompt(CHATML, Turn("user", "Hi"), choice=ToolChoice(ToolMode.NONE))


def test_calls_are_written_as_the_model_does_where_its_template_only_shows_tools() -> None:
    text = prompt(LISTED, *HISTORY)
    assert text.startswith('<|system|><|tool|>[{"name": "now"')
    assert '<|tool_call|>[{"name": "now", "arguments": {"zone": "CET"}}, {"name": "now", "arguments": {}}]' in text
    assert "You can call" not in text
    assert "<|system|>Be brief.<|tool|>" in prompt(LISTED, Turn("system", "Be brief."), Turn("user", "Hi"))


def test_earlier_thoughts_are_shown_beside_earlier_calls() -> None:
    first, called, *results = HISTORY
    called = dataclasses.replace(called, reasoning="The clock.")
    text = prompt(
        THOUGHTFUL, Turn("user", "Hi"), Turn("assistant", "Yes?", reasoning="A user."), first, called, *results
    )
    assert "[assistant]<think>A user.</think>Yes?[user]" in text
    assert "[assistant]<think>The clock.</think>I look.\n<tool_call>" in text
    assert "think" not in prompt(CHATML, first, called, *results)
