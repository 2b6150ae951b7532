"""A chat's messages are one conversation, as the template renders it."""

from __future__ import annotations

from runtime.chat.conversation import ToolCall, Turn
from tests.fakes.engine import TEMPLATE, chat
from tests.unit.web.generation.openai_format.chat.scripts import conversation


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_chat_is_rendered_without_another_bos() -> None:
    parsed = chat(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    )
    assert parsed.request.prompts == (tokens("<system>be brief</system><user>a\nb</user><assistant>"),)


def test_the_template_gets_its_variables() -> None:
    parsed = chat(chat_template_kwargs={"shout": "!"}, add_generation_prompt=False)
    assert parsed.request.prompts == (tokens("<user>hi</user>!"),)


def test_the_last_message_can_be_continued() -> None:
    """Where the template ends it is found by a mark, for the text itself may occur anywhere."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "s"}]
    parsed = chat(messages=messages, continue_final_message=True)
    assert parsed.request.prompts == (tokens("<user>hi</user><assistant>s"),)
    assert "trim" in TEMPLATE


def test_an_assistants_turn_may_consist_of_calls_alone() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    custom = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call, custom], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
        {"role": "assistant", "tool_calls": [call | {"id": None}], "reasoning": "so"},
    ]
    assert list(conversation(messages=messages).turns) == [
        Turn("user", "hi"),
        Turn("assistant", None, "hm", (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "x"))),
        Turn("tool", "1", tool_call_id="c1"),
        Turn("tool", "2", tool_call_id="c2"),
        Turn("assistant", None, "so", (ToolCall("call_4_0", "f", "{}"),)),
    ]


def test_the_older_calls_of_functions_are_answered_by_name() -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    _, asked, answered = conversation(messages=messages).turns
    assert asked.tool_calls == (ToolCall("call_1", "f", "{}"),)
    assert answered == Turn("tool", "1", tool_call_id="call_1", name="f")


def test_a_refusal_is_what_the_assistant_said() -> None:
    parts = [{"type": "text", "text": "Well,"}, {"type": "refusal", "refusal": "no."}]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": parts},
        {"role": "assistant", "content": None},
    ]
    assert [turn.content for turn in conversation(messages=messages).turns] == ["hi", "No.", "Well,\nno.", ""]


def test_an_older_call_of_anybody_else_than_the_assistant_means_nothing() -> None:
    messages = [
        {"role": "user", "content": "hi", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    asked, answered = conversation(messages=messages).turns
    assert asked.tool_calls == ()
    assert answered.tool_call_id is None
