"""Turns that a template would refuse or drop: they are arranged, and all that was said is in the prompt."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Role, Tool, ToolCall, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat import strict_templates, templates
from tests.rows import every_row

NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
STRICT = ("QWEN_35", "GEMMA_2", "GEMMA_3", "MISTRAL_STRICT")
SOURCES = vars(templates) | vars(strict_templates)
ALL = sorted(name for name, text in SOURCES.items() if name.isupper() and name[0] != "_" and "{%" in text)
CHATS = {name: Chat(ChatTemplate(SOURCES[name], NAMES)) for name in ALL}
TOOL = Tool("f", "Does.", {"type": "object", "properties": {"a": {"type": "string"}}})


def prompt(name: str, *turns: Turn | tuple[Role, str], tools: tuple[Tool, ...] = ()) -> str:
    told = [Turn(*turn) if isinstance(turn, tuple) else turn for turn in turns]
    return CHATS[name].prompt(Conversation(told, tools=tools)).text


def order(text: str, *words: str) -> bool:
    places = [text.find(word) for word in words]
    return -1 not in places and places == sorted(places)


@every_row("name", [*STRICT, "HERMES", "HARMONY", "OPENED", "CHATML"])
@every_row(
    "roles",
    [
        "system user assistant user system assistant user",  # Claude Code
        "system system user user",  # Codex
        "user assistant system user",
        "user system",
        "user user assistant assistant user",
        "assistant user",
        "system",
        "system system",
        "assistant",
        "system assistant",
    ],
)
def test_turns_of_any_order_are_all_told(name: str, roles: str) -> None:
    turns: list[tuple[Role, str]] = [(role, f"word{number}") for number, role in enumerate(roles.split())]  # type: ignore[misc]
    assert order(prompt(name, *turns), *(word for _, word in turns))


def test_late_system_turns_change_nothing_of_what_stands_before_them() -> None:
    first: list[tuple[Role, str]] = [("system", "s"), ("user", "a"), ("assistant", "b")]
    for name in STRICT:
        earlier = prompt(name, *first, ("user", "c")).rpartition("c")[0]
        assert prompt(name, *first, ("system", "d"), ("user", "c")).startswith(earlier.rpartition(">")[0])


def test_system_turns_at_the_beginning_become_one() -> None:
    assert "system\none\n\ntwo<|im_end|>" in prompt("QWEN_35", ("system", "one"), ("system", "two"), ("user", "u"))
    assert "<start_of_turn>user\none\n\nu<" in prompt("GEMMA_2", ("system", "one"), ("user", "u"))


def test_what_a_template_takes_is_left_as_it_is() -> None:
    turns: list[tuple[Role, str]] = [("user", "a"), ("system", "b"), ("user", "c"), ("user", "d")]
    assert prompt("CHATML", *turns).count("<|im_start|>") == 5
    assert "<|im_start|>system\nb<" in prompt("CHATML", *turns)


@pytest.mark.parametrize("name", ["QWEN_35", "MISTRAL_STRICT", "GEMMA_3", "HERMES"])
def test_an_interruption_between_a_call_and_its_result_stands_behind_them(name: str) -> None:
    called = Turn("assistant", tool_calls=(ToolCall("c1", "f", '{"a": "arg"}'),))
    result = Turn("tool", "result", tool_call_id="c1")
    turns = (Turn("user", "one"), called, Turn("system", "two"), result, Turn("user", "three"))
    assert order(prompt(name, *turns, tools=(TOOL,)), "one", "arg", "result", "two", "three")


def test_a_question_right_behind_a_result_has_an_answer_between_them_where_that_must_be() -> None:
    called = Turn("assistant", tool_calls=(ToolCall("c1", "f", '{"a": "arg"}'),))
    turns = (Turn("user", "one"), called, Turn("tool", "two", tool_call_id="c1"), Turn("user", "three"))
    shown = prompt("MISTRAL_STRICT", *turns, tools=(TOOL,))
    assert "[TOOL_RESULTS]two[/TOOL_RESULTS]OK.</s>[INST]three" in shown


@every_row("name", ALL)
def test_a_turn_that_only_thinks_is_taken_wherever_it_stands(name: str) -> None:
    hm, hi = Turn("assistant", reasoning="Hm."), Turn("user", "hi")
    for turns in ((hm, hi), (hi, hm, hi), (hi, hm), (hm,)):
        assert hi not in turns or "hi" in prompt(name, *turns)


def test_a_thought_that_no_template_shows_is_no_empty_answer() -> None:
    assert prompt("CHATML", Turn("assistant", reasoning="Hm."), ("user", "hi")).count("assistant") == 1


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 8))):
        role: Role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
        if role == "tool":
            call = ToolCall(f"call_{number}", "f", f'{{"a": "argument{number}_"}}')
            turns.append(Turn("assistant", draw(st.sampled_from([None, f"text{number}_"])), tool_calls=(call,)))
            if draw(st.booleans()):
                turns.append(Turn("system", f"between{number}_"))
            turns.append(Turn("tool", f"result{number}_", tool_call_id=call.id))
        else:
            turns.append(Turn(role, f"text{number}_"))
    return turns


@pytest.mark.parametrize("name", [*STRICT, "HERMES", "CHATML", "QWEN_XML", "GLM", "MINIMAX", "GEMMA_4"])
@given(turns=conversations(), tooled=st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_that_any_conversation_says_is_in_the_prompt(name: str, turns: list[Turn], tooled: bool) -> None:
    shown = prompt(name, *turns, tools=(TOOL,) if tooled else ())
    said = [turn.content for turn in turns if turn.content]
    said += [f"argument{call.id[5:]}_" for turn in turns for call in turn.tool_calls]
    assert [text for text in said if text not in shown] == []
