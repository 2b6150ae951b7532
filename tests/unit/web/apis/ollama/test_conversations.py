"""Ollama's messages as turns."""

from __future__ import annotations

from typing import Any

from runtime.chat.conversation import Conversation, ReasoningChoice, Tool, ToolCall, Turn
from web.apis.ollama.conversations import conversation_of
from web.apis.ollama.schemas import ChatBody
from web.generation.prompts import NO_PARAMETERS

CALLS = {"role": "assistant", "tool_calls": [{"function": {"name": n, "arguments": {"x": n}}} for n in ("a", "b", "a")]}


def conversation(*messages: dict[str, Any], **fields: Any) -> Conversation:  # noqa: ANN401
    return conversation_of(ChatBody.model_validate({"messages": list(messages)} | fields))


def test_plain_messages() -> None:
    asked = conversation({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
    assert list(asked.turns) == [Turn("system", "s"), Turn("user", "u")]
    assert (asked.add_generation_prompt, asked.continue_final) == (True, False)
    assert asked.reasoning == ReasoningChoice()


def test_a_last_message_of_the_assistant_is_gone_on_with() -> None:
    asked = conversation({"role": "user", "content": "u"}, {"role": "assistant", "content": "Sure, "})
    assert (asked.add_generation_prompt, asked.continue_final) == (False, True)
    asked = conversation({"role": "user", "content": "u"}, CALLS)
    assert (asked.add_generation_prompt, asked.continue_final) == (True, False)


def test_thoughts_and_how_much_to_think() -> None:
    asked = conversation({"role": "assistant", "content": "a", "thinking": "t"}, {"role": "user", "content": "u"})
    assert asked.turns[0] == Turn("assistant", "a", reasoning="t")
    said = {"role": "user", "content": "u"}
    assert conversation(said, think=True).reasoning == ReasoningChoice(enabled=True)
    assert conversation(said, think=False).reasoning == ReasoningChoice(enabled=False)
    assert conversation(said, think="low").reasoning == ReasoningChoice(enabled=True, effort="low")


def test_tools() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    functions = [{"name": "a", "description": "d", "parameters": parameters}, {"name": "b"}]
    tools = [{"type": "function", "function": function} for function in functions]
    asked = conversation({"role": "user", "content": "u"}, tools=tools)
    assert list(asked.tools) == [Tool("a", "d", parameters), Tool("b", None, NO_PARAMETERS)]


def test_calls_are_numbered_and_their_arguments_are_text() -> None:
    first, *_ = conversation(CALLS, {"role": "user", "content": "é"}).turns
    assert first.content is None
    assert first.tool_calls == (
        ToolCall("call_0", "a", '{"x": "a"}'),
        ToolCall("call_1", "b", '{"x": "b"}'),
        ToolCall("call_2", "a", '{"x": "a"}'),
    )


def test_a_result_answers_the_first_call_of_its_tool_that_has_none() -> None:
    results = [{"role": "tool", "content": "1", "tool_name": name} for name in ("a", "a", "b", "a")]
    _, *turns = conversation(CALLS, *results).turns
    assert [turn.tool_call_id for turn in turns] == ["call_0", "call_2", "call_1", None]
    assert [turn.name for turn in turns] == ["a", "a", "b", "a"]


def test_a_result_without_a_name_answers_the_next_call() -> None:
    _, *turns = conversation(CALLS, *[{"role": "tool", "content": "1"}] * 4).turns
    assert [turn.tool_call_id for turn in turns] == ["call_0", "call_1", "call_2", None]
    assert [turn.name for turn in turns] == ["a", "b", "a", None]


def test_ids_of_the_client_s_are_kept() -> None:
    calls = {"role": "assistant", "tool_calls": [{"id": f"c{n}", "function": {"name": "a"}} for n in (1, 2)]}
    first, *turns = conversation(
        calls, *({"role": "tool", "content": "", "tool_call_id": f"c{n}"} for n in (2, 1))
    ).turns
    assert [call.id for call in first.tool_calls] == ["c1", "c2"]
    assert [call.arguments for call in first.tool_calls] == ["{}", "{}"]
    assert [turn.tool_call_id for turn in turns] == ["c2", "c1"]
    assert [turn.name for turn in turns] == ["a", "a"]
