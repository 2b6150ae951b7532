"""Thoughts of a model before it answers: found, chosen and bounded."""

from __future__ import annotations

import dataclasses

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, ReasoningChoice, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.formats.format import Calls
from runtime.chat.formats.hermes import Hermes
from runtime.chat.reading.source import Reading, ReadingParser, Source
from runtime.chat.reasoning import Thought
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind, ThoughtBudget
from tests.models.chat.answers import Answer, Call, assert_read, read
from tests.models.chat.grammars import accepts, added_tokens
from tests.models.chat.templates import CHATML, HARMONY, HERMES, OPENED

TURNS = (Turn("user", "Why?"),)
CLOSE_ONLY = CHATML + "{# </think> #}"
EFFORT = CHATML + "{# <think> </think> #}{{ reasoning_effort }}"


def asking(enabled: bool | None = None, effort: str | None = None, budget: int | None = None) -> Conversation:
    return Conversation(TURNS, reasoning=ReasoningChoice(enabled, effort, budget))


def chat(template: str, *added: str) -> Chat:
    return Chat(ChatTemplate(template), added_tokens(*added))


@pytest.mark.parametrize(
    ("template", "text", "reasoning", "answer"),
    [
        (HERMES, "<think>\nSo.\n\nThus.\n</think>\n\nYes \n", "So.\n\nThus.", "Yes \n"),
        (HERMES, " \n<think></think>Yes", "", "Yes"),
        (HERMES, " \nYes", "", " \nYes"),
        (HERMES, "Yes <think>x</think>", "", "Yes <think>x</think>"),
        (HERMES, "<think>So </thin", "So </thin", ""),
        (HERMES, "<think", "", "<think"),
        (HERMES, " \n ", "", " \n "),
        (OPENED, "So.\n</think>\n\nYes", "So.", "Yes"),
        (OPENED, "<think>\nSo.\n</think>\n\nYes", "So.", "Yes"),
        (OPENED, "\n</think>\n\n", "", ""),
        (CLOSE_ONLY, "So.\n</think>\nYes", "So.", "Yes"),
        (CLOSE_ONLY, "<think>So.</think>Yes", "So.", "Yes"),
        (CHATML, "<think>So.</think>Yes", "", "<think>So.</think>Yes"),
    ],
)
def test_it_is_told_from_the_answer(template: str, text: str, reasoning: str, answer: str) -> None:
    assert_read(chat(template).prompt(asking()).parser, text, Answer(reasoning, [answer]))


def test_a_template_that_turns_it_off_is_asked_to() -> None:
    prompt = chat(HERMES).prompt(asking(enabled=False))
    assert prompt.text.endswith("assistant\n<think>\n\n</think>\n\n")
    assert_read(prompt.parser, "Yes", Answer("", ["Yes"]))
    assert prompt.text == chat(HERMES).prompt(asking(effort="none")).text
    variables = dataclasses.replace(asking(), variables={"enable_thinking": False})
    assert prompt.text == chat(HERMES).prompt(variables).text
    assert "think" not in chat(HERMES).prompt(asking(enabled=True)).text


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (OPENED, "<|Assistant|><think>\n\n</think>\n\n"),
        (CLOSE_ONLY, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        (CHATML, "<|im_start|>assistant\n"),
    ],
)
def test_for_one_that_cannot_an_empty_thought_is_written(template: str, end: str) -> None:
    prompt = chat(template).prompt(asking(enabled=False))
    assert prompt.text.endswith(end)
    assert_read(prompt.parser, "Yes", Answer("", ["Yes"]))


def test_what_a_model_cannot_do_is_refused() -> None:
    for choice in (asking(enabled=True), asking(budget=5)):
        with pytest.raises(RequestError, match="does not reason"):
            chat(CHATML).prompt(choice)


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh"])
def test_an_effort_is_granted_where_the_template_knows_one_and_refused_nowhere(effort: str) -> None:
    for template in (CHATML, HERMES):
        assert chat(template).prompt(asking(effort=effort)).text == chat(template).prompt(asking()).text
    assert chat(EFFORT).prompt(asking(effort=effort)).text.endswith(effort)


def test_earlier_thought_is_shown_where_the_template_reads_it() -> None:
    turns = (*TURNS, Turn("assistant", "Yes.", reasoning="So."))
    conversation = Conversation(turns, add_generation_prompt=False)
    assert "<think>\nSo.\n</think>\n\nYes." in chat(HERMES).prompt(conversation).text
    assert "So." not in chat(OPENED).prompt(conversation).text


def test_a_message_that_is_gone_on_with() -> None:
    turns = (*TURNS, Turn("assistant", "<think>So"))
    prompt = chat(HERMES).prompt(Conversation(turns, add_generation_prompt=False, continue_final=True))
    assert prompt.text.endswith("<think>So")
    assert_read(prompt.parser, " it is.</think>Yes", Answer("it is.", ["Yes"]))
    turns = (*TURNS, Turn("assistant", "<think>So</think>Yes"))
    prompt = chat(HERMES).prompt(Conversation(turns, add_generation_prompt=False, continue_final=True))
    assert_read(prompt.parser, ", it is.", Answer("", [", it is."]))


@pytest.mark.parametrize("added", [(), ("<think>", "</think>")])
def test_its_budget_holds_nothing_else(added: tuple[str, ...]) -> None:
    for template, begun in ((OPENED, True), (HERMES, False)):
        grammar = chat(template, *added).prompt(asking(budget=5)).grammar
        assert grammar == Grammar(GrammarKind.ANY, "", budget=ThoughtBudget(5, "<think>", "</think>", begun=begun))


def test_a_call_that_has_to_be_made_may_be_thought_about_within_the_budget() -> None:
    added = ("<think>", "</think>")
    asked = dataclasses.replace(asking(budget=5), tools=[Tool("now")], tool_choice=ToolChoice(ToolMode.REQUIRED))
    grammar = chat(HERMES, *added).prompt(asked).grammar
    assert grammar
    assert grammar.budget == ThoughtBudget(5, "<think>", "</think>")
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert [accepts(grammar, f"{thought}{call}", *added) for thought in ("", "<think>12345</think>", "So")] == [
        True,
        True,
        False,
    ]


def test_a_model_that_cannot_but_think_is_asked_not_to_and_does() -> None:
    harmony = chat(HARMONY)
    wish, demand = (Conversation(TURNS, reasoning=ReasoningChoice(False, off_is_wish=wish)) for wish in (True, False))
    assert harmony.prompt(wish).text.endswith("<|start|>assistant")
    with pytest.raises(RequestError, match="always reasons"):
        harmony.prompt(demand)


CALL = '<tool_call>{"name":"f","arguments":{"a":"x"}}</tool_call>\n'
BROKEN = '<tool_call>{"name":"f","arguments":{"a":"x"'


@pytest.mark.parametrize("piece", [4, 100_000])
@pytest.mark.parametrize(
    ("end", "most", "text", "calls"),
    [
        ("So I will.</think>hi", 1, "hi", 0),
        ("</think>hi", 1, "hi", 0),
        (BROKEN, 2, "", 0),
        (f"So I will.{CALL}", 2, "", 1),
    ],
)
def test_calls_that_were_thought_are_tried_once(piece: int, end: str, most: int, text: str, calls: int) -> None:
    trials = 0

    def read_calls(source: Source) -> Reading[None]:
        nonlocal trials
        trials += 1
        return Hermes().read(source, Calls((Tool("f"),), required=False, parallel=True, bound=False))

    def read_answer(source: Source) -> Reading[None]:
        yield from Thought().read(source, read_calls, "<tool_call>", begun=True)
        yield from Hermes().read(source, Calls((), required=False, parallel=True, bound=False))

    written = CALL * 100 + end
    said = read(ReadingParser(read_answer), [written[at : at + piece] for at in range(0, len(written), piece)])
    thought = written.removesuffix(CALL if calls else "</think>hi").rstrip() if end != BROKEN else written
    assert said.reasoning == thought
    assert "".join(said.text) == text
    assert said.calls == [Call("f", '{"a":"x"}', whole=True)] * calls
    assert trials <= most
