"""What a model thinks before it answers: found, chosen and bounded."""

from __future__ import annotations

import dataclasses

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, ReasoningChoice, Turn
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from tests.models.chat.answers import Answer, assert_read
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


def test_its_budget_is_held_by_a_grammar() -> None:
    added = ("<think>", "</think>")
    grammar = chat(OPENED, *added).prompt(asking(budget=5)).grammar
    assert grammar
    assert [accepts(grammar, text, *added) for text in ("", "12345", "123456", "123456</think>Yes")] == [False] * 4
    assert [accepts(grammar, f"{text}</think>Yes", *added) for text in ("", "123", "12345")] == [True] * 3
    grammar = chat(HERMES, *added).prompt(asking(budget=5)).grammar
    assert grammar
    assert [accepts(grammar, text, *added) for text in ("Yes, it is.", "<think>12345</think>", "<think>123456")] == [
        True,
        True,
        False,
    ]


def test_without_a_token_for_its_end_a_budget_is_refused() -> None:
    with pytest.raises(RequestError, match="</think> is no token of its own"):
        chat(OPENED).prompt(asking(budget=5))


def test_a_model_that_cannot_but_think_is_asked_not_to_and_does() -> None:
    harmony = chat(HARMONY)
    wish, demand = (Conversation(TURNS, reasoning=ReasoningChoice(False, off_is_wish=wish)) for wish in (True, False))
    assert harmony.prompt(wish).text.endswith("<|start|>assistant")
    with pytest.raises(RequestError, match="always reasons"):
        harmony.prompt(demand)
