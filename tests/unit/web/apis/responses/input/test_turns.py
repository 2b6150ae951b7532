"""Items as the turns of a conversation."""

from __future__ import annotations

from typing import Any

from runtime.chat.conversation import ToolCall, Turn
from web.apis.responses.input.items import ITEMS
from web.apis.responses.input.turns import turns_of


def turns(*items: dict[str, Any]) -> list[Turn]:
    return turns_of(ITEMS.validate_python(list(items)))


def test_an_answer_of_several_items_is_one_turn() -> None:
    assert turns(
        {"role": "developer", "content": "rules"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
        {"role": "assistant", "content": "first"},
        {"role": "assistant", "content": "second"},
    ) == [
        Turn("system", "rules"),
        Turn("user", "a\nb"),
        Turn("assistant", "I look", "hm", (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "x"))),
        Turn("tool", "1", tool_call_id="c1", name="f"),
        Turn("tool", "2", tool_call_id="c2", name="g"),
        Turn("assistant", "first"),
        Turn("assistant", "second"),
    ]


def test_thoughts_behind_a_call_begin_another_turn() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    first, second = turns(call, thought, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]})
    assert (first.reasoning, second) == (None, Turn("assistant", "no", "so"))


def test_thoughts_that_are_empty_are_no_turn() -> None:
    """Such as encrypted ones, which only OpenAI's servers can read."""
    assert turns({"type": "reasoning", "summary": [], "encrypted_content": "x"}) == []


def test_a_call_of_a_tool_in_a_namespace_has_the_name_that_the_model_gave_it() -> None:
    called, result, other = turns(
        {"type": "function_call", "call_id": "c1", "namespace": "mcp__files", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "namespace": "mcp__files", "name": "read", "output": "1"},
        {"type": "function_call_output", "call_id": "c9", "namespace": "mcp__files", "name": "write", "output": "2"},
    )
    assert called.tool_calls == (ToolCall("c1", "mcp__files__read", "{}"),)
    assert (result.name, other.name) == ("mcp__files__read", "mcp__files__write")
