"""Every kind of block, in every kind of message, as turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.chat.conversation import ReasoningChoice, ToolCall, Turn
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from tests.unit.web.apis.anthropic.bodies import (
    Json,
    assistant,
    conversation,
    text,
    tool_result,
    tool_use,
    turns,
    user,
)

CALLED = assistant(tool_use("a", city="Rome"), tool_use("b", city="Oslo"))
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def test_texts() -> None:
    assert turns(
        user("hi"), assistant("yes?"), user(text("so"), text("what", cache_control={"type": "ephemeral"}))
    ) == [
        Turn("user", "hi"),
        Turn("assistant", "yes?"),
        Turn("user", "so\nwhat"),
    ]


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("be brief", "be brief"),
        ([text("be brief")], "be brief"),
        ([text("be brief", cache_control={"type": "ephemeral"}), text("and kind")], "be brief\nand kind"),
    ],
)
def test_the_system_prompt_is_the_first_turn(system: object, said: str) -> None:
    assert turns(user("hi"), system=system) == [Turn("system", said), Turn("user", "hi")]


@pytest.mark.parametrize("system", [None, []])
def test_no_system_prompt_is_no_turn(system: object) -> None:
    assert turns(user("hi"), system=system) == [Turn("user", "hi")]


def test_a_system_message_in_the_middle_stays_there() -> None:
    said = turns(user("hi"), {"role": "system", "content": "now in French"}, user("well?"))
    assert [turn.role for turn in said] == ["user", "system", "user"]


def test_calls_and_their_results() -> None:
    said = turns(user("weather?"), CALLED, user(tool_result("b", "snow"), tool_result("a"), text("and now?")))
    assert said == [
        Turn("user", "weather?"),
        Turn(
            "assistant",
            tool_calls=(
                ToolCall("a", "weather", '{"city": "Rome"}'),
                ToolCall("b", "weather", '{"city": "Oslo"}'),
            ),
        ),
        Turn("tool", "snow", tool_call_id="b"),
        Turn("tool", "sunny", tool_call_id="a"),
        Turn("user", "and now?"),
    ]


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("it rains", {}, "it rains"),
        ([text("it"), text("rains")], {}, "it\nrains"),
        ([], {}, ""),
        (None, {}, ""),
        ("no such city", {"is_error": True}, "Error: no such city"),
        ("fine", {"is_error": False}, "fine"),
    ],
)
def test_what_a_tool_returned(content: object, more: Json, said: str) -> None:
    *_, result = turns(assistant(tool_use("a")), user(tool_result("a", content, **more)))
    assert result == Turn("tool", said, tool_call_id="a")


def test_a_call_beside_a_text_and_a_thought() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    said = turns(assistant(thought, hidden, text("let me see"), tool_use("a")), user(tool_result("a")))
    assert said[0] == Turn("assistant", "let me see", "hm", (ToolCall("a", "weather", "{}"),))


def test_arguments_keep_their_letters() -> None:
    said = turns(assistant(tool_use("a", city="Zürich")), user(tool_result("a")))
    assert said[0].tool_calls[0].arguments == '{"city": "Zürich"}'


def test_messages_of_one_role_that_follow_each_other_are_one() -> None:
    said = turns(user("a"), user("b"), assistant("c"), assistant(tool_use("x")), user(tool_result("x")), user("d"))
    assert [(turn.role, turn.content) for turn in said] == [
        ("user", "a\nb"),
        ("assistant", "c"),
        ("tool", "sunny"),
        ("user", "d"),
    ]


def test_a_last_message_of_the_assistants_is_gone_on_with() -> None:
    assert conversation(user("hi"), assistant("Well,")).continue_final
    assert not conversation(user("hi"), assistant("Well,"), user("go on")).continue_final


@pytest.mark.parametrize(
    ("thinking", "choice"),
    [
        (None, ReasoningChoice(enabled=False, off_is_wish=True)),
        ({"type": "disabled"}, ReasoningChoice(enabled=False)),
        ({"type": "adaptive"}, ReasoningChoice()),
        ({"type": "enabled", "budget_tokens": 1024}, ReasoningChoice(enabled=True, budget=1024)),
    ],
)
def test_thinking(thinking: object, choice: ReasoningChoice) -> None:
    assert conversation(thinking=thinking).reasoning == choice


@pytest.mark.parametrize(
    ("thinking", "effort", "asked"),
    [
        ({"type": "adaptive"}, "low", "low"),
        ({"type": "enabled", "budget_tokens": 9}, "max", "high"),
        ({"type": "adaptive"}, None, None),
        ({"type": "disabled"}, "high", None),
        (None, "high", None),
    ],
)
def test_the_effort_of_thinking(thinking: object, effort: str | None, asked: str | None) -> None:
    choice = conversation(thinking=thinking, output_config={"effort": effort}).reasoning
    assert choice.effort == asked


FORMAT = {"type": "json_schema", "schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"output_format": FORMAT}, "output_format.schema"),
        ({"output_config": {"format": FORMAT}}, "output_config.format.schema"),
    ],
)
def test_an_answer_of_a_schema(fields: Json, param: str) -> None:
    assert conversation(**fields).answer == Grammar(GrammarKind.JSON_SCHEMA, '{"type": "object"}', param)


def test_an_answer_of_any_text() -> None:
    assert conversation(output_config={"effort": "max"}).answer is None


def test_a_schema_is_given_once() -> None:
    with pytest.raises(RequestError, match="exclude each other") as refused:
        conversation(output_format=FORMAT, output_config={"format": FORMAT})
    assert refused.value.param == "output_format"


UNREAD: list[tuple[list[Any], str, str]] = [
    ([user(IMAGE)], "messages.0.content.0", "image"),
    ([user("hi"), assistant("hm"), user(text("this"), IMAGE)], "messages.2.content.1", "image"),
    ([user({"type": "document", "source": {}})], "messages.0.content.0", "document"),
    ([assistant({"type": "server_tool_use"}), user("hi")], "messages.0.content.0", "server_tool_use"),
    ([assistant(tool_use("a")), user(tool_result("a", [IMAGE]))], "messages.1.content.0.content.0", "image"),
    ([user(tool_use("a"))], "messages.0.content.0", "tool_use"),
    ([assistant(tool_result("a"))], "messages.0.content.0", "tool_result"),
    ([user("hi"), user({"type": "thinking", "thinking": "hm"})], "messages.1.content.0", "thinking"),
]


@pytest.mark.parametrize(("messages", "path", "kind"), UNREAD)
def test_what_cannot_be_read_is_refused_by_name(messages: list[Json], path: str, kind: str) -> None:
    with pytest.raises(RequestError, match=rf"^'{path}' is a block of type '{kind}', which .*\.$") as refused:
        turns(*messages)
    assert refused.value.param == path


def test_an_image_in_the_system_prompt_is_refused() -> None:
    with pytest.raises(RequestError, match=r"'system\.1' is a block of type 'image', which is not supported"):
        turns(system=[text("look"), IMAGE])


@pytest.mark.parametrize(
    "messages",
    [
        [user("hi"), CALLED, user(tool_result("a"))],
        [user("hi"), CALLED],
        [user("hi"), CALLED, user("never mind")],
        [user("hi"), CALLED, user(text("wait"), tool_result("a"), tool_result("b"))],
    ],
)
def test_a_call_without_its_result_is_refused(messages: list[Json]) -> None:
    with pytest.raises(RequestError, match="missing are those of '"):
        turns(*messages)


@pytest.mark.parametrize(
    "messages",
    [
        [user(tool_result("a"))],
        [CALLED, user(tool_result("c"))],
        [CALLED, user(tool_result("a"), tool_result("a"))],
        [CALLED, user(tool_result("a"), tool_result("b")), assistant("ah"), user(tool_result("a"))],
    ],
)
def test_a_result_without_its_call_is_refused(messages: list[Json]) -> None:
    with pytest.raises(RequestError, match="which is no 'tool_use' of the message before"):
        turns(*messages)


MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.lists(st.text(), min_size=1)), min_size=1)


@given(MESSAGES)
def test_no_text_is_lost_and_roles_take_turns(messages: list[tuple[str, list[str]]]) -> None:
    said = turns(*({"role": role, "content": [text(part) for part in parts]} for role, parts in messages))
    assert "\n".join(turn.content or "" for turn in said) == "\n".join(part for _, parts in messages for part in parts)
    assert all(before.role != after.role for before, after in pairwise(said))


def test_a_tool_that_a_search_found_is_named() -> None:
    found = tool_result("a", [{"type": "tool_reference", "tool_name": "weather"}, text("found")])
    *_, result = turns(assistant(tool_use("a")), user(found))
    assert result.content == "The tool weather can be called now.\nfound"


def test_a_system_message_may_stand_between_a_call_and_its_result() -> None:
    said = turns(assistant(tool_use("a")), {"role": "system", "content": "be brief"}, user(tool_result("a")))
    assert [turn.role for turn in said] == ["assistant", "system", "tool"]


def test_examples_of_a_tool_s_input_are_in_its_description() -> None:
    tool = {"name": "f", "description": "Does.", "input_schema": {"type": "object"}, "input_examples": [{"a": 1}]}
    (made,) = conversation(user("hi"), tools=[tool]).tools
    assert made.description == 'Does.\n\nExamples of its input:\n{"a": 1}'
