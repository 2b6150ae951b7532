"""Grammars of custom tools, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from tests.models.chat.answers import Answer, Call, assert_read
from tests.models.chat.grammars import accepts
from tests.models.chat.templates import HERMES

CHAT = Chat(ChatTemplate(HERMES))
REQUIRED = ToolChoice(ToolMode.REQUIRED)


def asking(*tools: Tool, choice: ToolChoice = REQUIRED) -> Conversation:
    return Conversation([Turn("user", "Hi")], tools=tools, tool_choice=choice)


def call(arguments: str) -> str:
    return f'<tool_call>{{"name": "c", "arguments": {arguments}}}</tool_call>'


def test_the_input_of_a_custom_tool_is_any_text() -> None:
    prompt = CHAT.prompt(asking(Tool("c", custom=True)))
    assert prompt.grammar
    assert accepts(prompt.grammar, call('{"input": "a \\"b\\"\\n"}'))
    assert not accepts(prompt.grammar, call('{"input": 7}'))
    assert not accepts(prompt.grammar, call("{}"))
    assert_read(
        prompt.parser, call('{"input": "a \\"b\\"\\n"}'), Answer("", ["", ""], [Call("c", 'a "b"\n', whole=True)])
    )


def test_or_held_to_a_regular_expression() -> None:
    tool = Tool("c", custom=True, grammar=Grammar(GrammarKind.REGEX, "a+|b"))
    grammar = CHAT.prompt(asking(tool)).grammar
    assert grammar
    assert [accepts(grammar, call(f'{{"input": "{text}"}}')) for text in ("aa", "b", "ab")] == [True, True, False]
    with pytest.raises(RequestError, match="a grammar in lark") as caught:
        CHAT.prompt(asking(Tool("c", custom=True, grammar=Grammar(GrammarKind.LARK, "start: X"))))
    assert caught.value.param == "tools"


@pytest.mark.parametrize(
    ("tools", "choice", "says"),
    [
        ((Tool("f"), Tool("f")), ToolChoice(), "Two tools have the same name"),
        ((Tool("f"),), ToolChoice(names=("g",)), "There is no tool named 'g'"),
        ((), REQUIRED, "there is no tool to call"),
    ],
)
def test_a_choice_that_cannot_be(tools: tuple[Tool, ...], choice: ToolChoice, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        CHAT.prompt(asking(*tools, choice=choice))


def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(RequestError, match="nested more than"):
        CHAT.prompt(asking(Tool("f", parameters=schema)))


def test_names_cannot_break_out_of_a_grammar() -> None:
    name = 'f"\\ \n/ ${x} <[1]>'
    grammar = CHAT.prompt(asking(Tool(name))).grammar
    assert grammar
    assert accepts(grammar, '<tool_call>{"name": "f\\"\\\\ \\n/ ${x} <[1]>", "arguments": {}}</tool_call>')
