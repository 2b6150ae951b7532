"""Turns as templates expect messages: arguments, ids, silence, custom tools."""

from __future__ import annotations

import json

import pytest

from runtime.chat.conversation import Conversation, Tool, ToolCall, Turn
from runtime.chat.messages import template_messages
from runtime.chat.traits import CONTENT_ABSENT, CONTENT_EMPTY, CONTENT_NULL, CallIds, CallTraits, TemplateTraits

CALL = ToolCall("call_0123", "f", '{"a": "é"}')
TURNS = (Turn("user", "Hi"), Turn("assistant", tool_calls=(CALL,)), Turn("tool", "1", tool_call_id="call_0123"))


def messages(traits: CallTraits, *turns: Turn, tools: tuple[Tool, ...] = ()) -> list[dict[str, object]]:
    return template_messages(Conversation(turns or TURNS, tools=tools), TemplateTraits(calls=traits))


def test_arguments_are_an_object_or_a_text() -> None:
    for as_text, expected in ((False, {"a": "é"}), (True, '{"a": "é"}')):
        _, called, result = messages(CallTraits(arguments_as_text=as_text))
        function = {"name": "f", "arguments": expected}
        assert called == {
            "role": "assistant",
            "tool_calls": [{"id": "call_0123", "type": "function", "function": function}],
        }
        assert result == {"role": "tool", "content": "1", "tool_call_id": "call_0123", "name": "f"}


@pytest.mark.parametrize("written", ["{", "[1]", "7", "[" * 100_000])
def test_what_the_model_wrote_and_is_no_object_stays_as_it_is(written: str) -> None:
    turn = Turn("assistant", tool_calls=(ToolCall("1", "f", written),))
    ((called),) = messages(CallTraits(), turn)
    assert called["tool_calls"] == [{"id": "1", "type": "function", "function": {"name": "f", "arguments": written}}]


def test_no_arguments_are_an_empty_object() -> None:
    turn = Turn("assistant", tool_calls=(ToolCall("1", "f", ""),))
    for as_text, expected in ((False, {}), (True, "{}")):
        (called,) = messages(CallTraits(arguments_as_text=as_text), turn)
        assert json.dumps(expected) in json.dumps(called)


def test_a_turn_without_text_says_so_as_the_template_wants() -> None:
    shown = {how: messages(CallTraits(content=how))[1].get("content", "absent") for how in range(3)}
    assert shown == {CONTENT_ABSENT: "absent", CONTENT_EMPTY: "", CONTENT_NULL: None}


def test_short_ids_are_the_same_on_both_sides() -> None:
    _, called, result = messages(CallTraits(ids=CallIds.SHORT))
    calls = called["tool_calls"]
    assert isinstance(calls, list)
    assert calls[0]["id"] == result["tool_call_id"]
    assert len(calls[0]["id"]) == 9
    assert calls[0]["id"].isalnum()
    kept = messages(CallTraits(ids=CallIds.SHORT), Turn("tool", "1", tool_call_id="abcdefgh9"))
    assert kept[0]["tool_call_id"] == "abcdefgh9"


def test_named_ids_count_the_calls_of_the_whole_chat() -> None:
    second = ToolCall("call_9", "g", "{}")
    turns = (*TURNS, Turn("assistant", tool_calls=(second,)), Turn("tool", "2", tool_call_id="call_9"))
    _, first, first_result, called, result = messages(CallTraits(ids=CallIds.NAMED), *turns)
    ids = [message["tool_calls"][0]["id"] for message in (first, called)]  # type: ignore[index]
    assert ids == [first_result["tool_call_id"], result["tool_call_id"]] == ["functions.f:0", "functions.g:1"]


def test_a_result_of_no_call_keeps_its_id() -> None:
    (result,) = messages(CallTraits(ids=CallIds.SHORT), Turn("tool", "1", tool_call_id="call_of_nobody"))
    assert result["tool_call_id"] == "call_of_nobody"


def test_a_custom_tool_s_input_is_an_argument() -> None:
    custom = Tool("f", custom=True)
    for as_text, expected in ((False, {"input": '{"a": "é"}'}), (True, '{"input": "{\\"a\\": \\"é\\"}"}')):
        called = messages(CallTraits(arguments_as_text=as_text), tools=(custom,))[1]
        assert called["tool_calls"] == [
            {"id": "call_0123", "type": "function", "function": {"name": "f", "arguments": expected}}
        ]
