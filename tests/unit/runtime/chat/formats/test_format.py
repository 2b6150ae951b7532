"""Common tests of all formats: scripted answers, garbage, grammars and histories."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, ToolCall, ToolChoice, ToolMode, Turn
from runtime.chat.reading.source import ReadingParser
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import assert_read, read
from tests.models.chat.grammars import accepts, added_tokens
from tests.models.chat.scripts import SCRIPTS, TOOLS, TRICKY, Script
from tests.models.chat.templates import MISTRAL

NAMES = [f"{number}-{script.format}" for number, script in enumerate(SCRIPTS)]
each = pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
QUESTION = Turn("user", "Weather?")


@functools.cache
def chat_of(template: str, tokens: tuple[str, ...]) -> Chat:
    return Chat(ChatTemplate(template, {"eos_token": "</s>"}), added_tokens(*tokens))


def chat(script: Script) -> Chat:
    return chat_of(script.template, script.tokens)


def asking(choice: ToolChoice | None = None, *, parallel: bool = True) -> Conversation:
    return Conversation([QUESTION], tools=TOOLS, tool_choice=choice or ToolChoice(), parallel_tool_calls=parallel)


@each
def test_it_is_found_in_the_template(script: Script) -> None:
    assert chat(script).tool_format == script.format


@each
def test_a_scripted_answer_however_it_is_split(script: Script) -> None:
    assert_read(chat(script).prompt(asking()).parser, script.text, script.says)


@each
def test_its_special_tokens_are_seen(script: Script) -> None:
    assert chat(script).prompt(asking()).visible >= set(script.tokens)


@each
def test_a_grammar_holds_calls_to_their_schemas_and_leaves_text_alone(script: Script) -> None:
    grammar = chat(script).prompt(asking()).grammar
    assert grammar
    assert accepts(grammar, script.text, *script.tokens)
    assert not accepts(grammar, script.violation, *script.tokens)
    if script.format != "harmony":
        assert accepts(grammar, f"{script.thinking}Good day!", *script.tokens)


@each
def test_a_required_call_is_made_at_once(script: Script) -> None:
    grammar = chat(script).prompt(asking(ToolChoice(ToolMode.REQUIRED))).grammar
    assert grammar
    assert not accepts(grammar, "Good day!", *script.tokens)
    assert not accepts(grammar, "", *script.tokens)
    calls = script.text.replace("That is all.", "").replace("I look.", "").strip(" \n")
    calls = calls.replace("<|channel|>commentary<|message|><|end|><|start|>assistant", "")
    assert accepts(grammar, calls, *script.tokens)


@each
def test_what_is_cut_off_loses_nothing(script: Script) -> None:
    """What an answer says so far is the beginning of what it says."""
    parser = chat(script).prompt(asking()).parser
    for end in range(0, len(script.text), 3):
        said = read(parser(), [script.text[:end]])
        for mine, whole in zip(said.calls, script.says.calls, strict=False):
            assert whole.arguments.startswith(mine.arguments) or mine.arguments.startswith("{")
        assert len(said.calls) <= len(script.says.calls)


@each
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_garbage_is_text(script: Script, data: st.DataObject) -> None:
    """Markers in any order, with anything between them: what is no call comes back as it is."""
    markers = [
        *sorted(chat(script).prompt(asking()).visible),
        "{",
        "}",
        "[",
        "]",
        '"',
        "<",
        '"name"',
        "a",
        " ",
        "\n",
        "to=",
    ]
    text = "".join(data.draw(st.lists(st.sampled_from(markers) | st.text(max_size=3), max_size=12)))
    reading = chat(script).prompt(asking()).parser
    said = read(reading(), list(text))
    assert said == read(reading(), [text])
    is_thought = said.reasoning or "think>" in text or text.isspace()  # a prompt may open a thought: it was empty then
    if not said.calls and not is_thought and script.format != "harmony":
        assert "".join(said.text) == text


@each
def test_nothing_is_held_that_need_not_be(script: Script) -> None:
    parser = chat(script).prompt(asking()).parser()
    assert isinstance(parser, ReadingParser)
    longest = 0
    for text in [*(["words and < words [ "] * 200), *script.text, *(["more "] * 200)]:
        parser.push(text)
        longest = max(longest, parser.held)
    assert longest < 100


@each
@pytest.mark.parametrize("several", [False, True])
def test_calls_and_their_results_are_in_the_prompt(script: Script, several: bool) -> None:
    if several and script.format in ("llama", "harmony"):
        return  # their templates take one call at a time
    calls = [ToolCall("call_123456789abc", "weather", TRICKY), ToolCall("call_2", "now", "{}")][: 2 if several else 1]
    results = [Turn("tool", f"result {call.name}", tool_call_id=call.id) for call in calls]
    turns: Sequence[Turn] = [QUESTION, Turn("assistant", tool_calls=tuple(calls)), *results]
    text = chat(script).prompt(replace(asking(), turns=turns)).text
    for said in ("Weather?", "Tells it" if script.format != "harmony" else "type weather", "Köln 東京"):
        assert said in text or script.template is MISTRAL  # which shows tools before the last turn only
    for call in calls:
        assert call.name in text
        assert f"result {call.name}" in text
    assert "None" not in text


@each
def test_without_tools_there_is_no_call(script: Script) -> None:
    none = chat(script).prompt(asking(ToolChoice(ToolMode.NONE)))
    assert none.grammar is None
    assert "weather" not in none.text
    assert read(none.parser(), [script.text]).calls == []
