"""Grammars of custom tools, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.text.tokenizer import Tokenizer
from tests.models.chat.answers import Answer, Call, assert_read, read
from tests.models.chat.grammars import accepts
from tests.models.chat.templates import GEMMA_4, GLM, HERMES, MINIMAX, QWEN_XML, SEED
from tests.models.small_tokenizers import byte_level

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


def test_a_lark_grammar_that_a_json_string_cannot_be_held_to_is_told_to_the_model() -> None:
    """A coding agent's patches, whose grammar it sends with each request."""
    tool = Tool(
        "c", "Edits.", custom=True, grammar=Grammar(GrammarKind.LARK, 'start: "*** Begin" LF\n%import common.LF')
    )
    for choice in (ToolChoice(), ToolChoice(ToolMode.REQUIRED)):
        prompt = CHAT.prompt(Conversation([Turn("user", "Hi")], tools=[tool], tool_choice=choice))
        assert "match this Lark grammar" in prompt.text
        assert r"LF\n%import common.LF" in prompt.text
        assert prompt.grammar
        assert accepts(prompt.grammar, call('{"input": "*** Begin\\n"}'))
        answer = Answer("", ["", ""], [Call("c", "*** Begin\n", whole=True)])
        assert_read(prompt.parser, call('{"input": "*** Begin\\n"}'), answer)


OPEN = Tool("c", parameters={"type": "object", "properties": {"a": {"type": "string"}}})


def test_arguments_are_those_that_the_schema_lists_unless_the_server_is_told_otherwise() -> None:
    for chat, taken in ((CHAT, False), (Chat(ChatTemplate(HERMES), open_objects=True), True)):
        grammar = chat.prompt(asking(OPEN)).grammar
        assert grammar
        assert accepts(grammar, call('{"a": "x"}'))
        assert accepts(grammar, call('{"a": "x", "more": 1}')) is taken


SUM = Grammar(GrammarKind.LARK, 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/\n')
FREE = [
    (QWEN_XML, "<tool_call>\n<function=c>\n<parameter=input>\n{}\n</parameter>\n</function>\n</tool_call>"),
    (SEED, "<seed:tool_call>\n<function=c>\n<parameter=input>{}</parameter>\n</function>\n</seed:tool_call>"),
    (GLM, "<tool_call>c\n<arg_key>input</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"),
    (GEMMA_4, '<|tool_call>call:c{{input:<|"|>{}<|"|>}}<tool_call|>'),
    (
        MINIMAX,
        'x</think><minimax:tool_call><invoke name="c"><parameter name="input">{}</parameter></invoke>'
        "</minimax:tool_call>",
    ),
]


@pytest.mark.parametrize(("template", "call"), FREE, ids=["qwen-xml", "seed", "glm", "gemma", "minimax"])
@pytest.mark.parametrize("language", ["lark", "regex", "any"])
def test_where_the_input_has_no_quotes_any_grammar_holds_it(template: str, call: str, language: str) -> None:
    grammar = {"lark": SUM, "regex": Grammar(GrammarKind.REGEX, r"[0-9]+(\+[0-9]+)*"), "any": None}[language]
    prompt = Chat(ChatTemplate(template)).prompt(asking(Tool("c", custom=True, grammar=grammar)))
    assert prompt.grammar
    assert accepts(prompt.grammar, call.format("1+22"))
    assert accepts(prompt.grammar, call.format("1+")) == (language == "any")
    said = read(prompt.parser(), list(call.format("1+22")))
    assert said.calls == [Call("c", "1+22", whole=True)]


def test_an_error_in_a_tool_s_grammar_is_told_of_it() -> None:
    wrong = Grammar(GrammarKind.LARK, "start: missing", "tools")
    tokenizer = Tokenizer(byte_level())
    chat = Chat(ChatTemplate(GEMMA_4), tokenizer.added_tokens)
    prompt = chat.prompt(asking(Tool("c", custom=True, grammar=wrong)))
    assert prompt.grammar
    with pytest.raises(RequestError, match="missing") as caught:
        GrammarCompiler(tokenizer, tokenizer.vocab_size, (2,)).compile(prompt.grammar)
    assert caught.value.param == "tools"


@pytest.mark.parametrize(
    ("tools", "choice", "says"),
    [
        ((Tool("f"), Tool("f")), ToolChoice(), "two of the name 'f'"),
        ((Tool("f"),), ToolChoice(names=("g",)), "names 'g', and there is no such tool"),
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
