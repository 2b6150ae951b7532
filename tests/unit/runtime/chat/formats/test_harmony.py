"""Answers in channels."""

from __future__ import annotations

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, ReasoningChoice, Tool, ToolCall, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind, ThoughtBudget
from tests.models.chat.answers import Answer, Call, assert_read
from tests.models.chat.grammars import accepts, added_tokens
from tests.models.chat.templates import HARMONY

TOKENS = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>")
CHAT = Chat(ChatTemplate(HARMONY), added_tokens(*TOKENS))
NOW = Tool("now")
TURNS = (Turn("user", "Hi"),)
ANALYSIS = "<|channel|>analysis<|message|>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ANALYSIS}So.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", Answer("So.", ["Yes."])),
        (f"{ANALYSIS}So.<|start|>assistant<|channel|>final<|message|>Yes.<|return|>", Answer("So.", ["Yes."])),
        ("<|channel|>final<|message|>Yes.\n", Answer("", ["Yes.\n"])),
        ("<|channel|>final <|constrain|>json<|message|>{}", Answer("", ["{}"])),
        ("Yes.", Answer("", ["Yes."])),
        (" \n", Answer("", [" \n"])),
        ("<|channel|>final", Answer("", ["<|channel|>final"])),
        ("<|channel|>commentary to=python<|message|>1 + 1", Answer("", ["1 + 1"])),
        (
            " to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
            Answer("", ["", ""], [Call("now", "{}", whole=True)]),
        ),
        (
            "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|><|start|>assistant"
            '<|channel|>commentary to=functions.now<|message|>{"a": ',
            Answer("", ["", "", ""], [Call("now", "{}", whole=True), Call("now", '{"a": ')]),
        ),
        (f"<|channel|>{'x' * 2000}", Answer("", [f"<|channel|>{'x' * 2000}"])),
    ],
)
def test_what_is_in_each(text: str, expected: Answer) -> None:
    assert_read(CHAT.prompt(Conversation(TURNS, tools=[NOW])).parser, text, expected)


def test_without_tools_it_is_read_all_the_same() -> None:
    prompt = CHAT.prompt(Conversation(TURNS))
    assert prompt.visible >= set(TOKENS)
    text = f"{ANALYSIS}So.<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    assert_read(prompt.parser, text, Answer("So.", ["Yes."]))


def test_its_effort_and_its_budget() -> None:
    text = CHAT.prompt(Conversation(TURNS, reasoning=ReasoningChoice(effort="high"))).text
    assert text.startswith("<|start|>system<|message|>Reasoning: high<|end|>")
    for off in (ReasoningChoice(enabled=False), ReasoningChoice(effort="none")):
        with pytest.raises(RequestError, match="always reasons"):
            CHAT.prompt(Conversation(TURNS, reasoning=off))
    grammar = CHAT.prompt(Conversation(TURNS, reasoning=ReasoningChoice(budget=3))).grammar
    assert grammar == Grammar(GrammarKind.ANY, "", budget=ThoughtBudget(3, ANALYSIS, "<|end|>", again=True))


def test_a_required_call_may_be_thought_about() -> None:
    choice = ToolChoice(ToolMode.REQUIRED)
    grammar = CHAT.prompt(Conversation(TURNS, tools=[NOW], tool_choice=choice)).grammar
    assert grammar
    call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}"
    assert accepts(grammar, f"{ANALYSIS}So.<|end|><|start|>assistant{call}", *TOKENS)
    assert accepts(grammar, call, *TOKENS)
    assert not accepts(grammar, "<|channel|>final<|message|>Yes.", *TOKENS)


def test_thought_is_shown_before_a_call_unless_there_is_text() -> None:
    call = (ToolCall("1", "now", "{}"),)
    for content, shown in ((None, "So."), ("I look.", "I look.")):
        turn = Turn("assistant", content, reasoning="So.", tool_calls=call)
        text = CHAT.prompt(Conversation([*TURNS, turn, Turn("tool", "12", tool_call_id="1")], tools=[NOW])).text
        assert f"<|channel|>analysis<|message|>{shown}<|end|>" in text
        assert text.count("analysis") == 1
        assert "<|start|>functions.now to=assistant" in text
