"""Grammar of an answer, beside what a model thinks and calls: that which the prompt comes with."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from runtime.grammar.compiler import GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level

PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
THINKING = PLAIN + "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}"
TOKENIZER = Tokenizer(byte_level())
END = 2
COMPILER = GrammarCompiler(TOKENIZER, TOKENIZER.vocab_size, (END,))
WANTED = Grammar(
    GrammarKind.JSON_SCHEMA,
    json.dumps(
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    ),
    "response_format",
)
TOOL = Tool("look", parameters={"properties": {"at": {"enum": ["x", "y"]}}, "required": ["at"]})
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>'


def accepting(template: str, **asked: object) -> Callable[[str], bool]:
    """Return what tells whether a text may be the whole answer."""
    chat = Chat(ChatTemplate(template), TOKENIZER.added_tokens)
    prompt = chat.prompt(Conversation([Turn("user", "hi")], answer=WANTED, **asked))  # type: ignore[arg-type]
    assert prompt.grammar is not None
    compiled = COMPILER.compile(prompt.grammar)

    def accepts(text: str) -> bool:
        matcher, tokens = compiled.matcher(), TOKENIZER.encode(text, add_special_tokens=False)
        if matcher.count_valid(tokens) < len(tokens):
            return False
        return matcher.is_complete_after(tokens) or matcher.count_valid([*tokens, END]) > len(tokens)

    return accepts


def test_a_plain_model_answers_at_once() -> None:
    accepts = accepting(PLAIN)
    assert accepts('{"a": 1}')
    assert not accepts("Well")
    assert not accepts('<think>hm</think>{"a": 1}')


def test_a_model_that_thinks_does_so_first() -> None:
    accepts = accepting(THINKING)
    assert accepts('Well, {"b": 2} would be wrong.\n</think>\n\n{"a": 1}')
    assert not accepts("Well.\n</think>\n\nThe answer")
    assert not accepts("Well.\n</think>\n\n")


def test_a_call_takes_the_place_of_the_answer() -> None:
    accepts = accepting(PLAIN, tools=[TOOL])
    assert accepts(CALL)
    assert accepts('{"a": 1}')
    assert not accepts("Well")
    assert not accepts(CALL.replace('"x"', '"z"'))


def test_where_a_call_is_required_there_is_no_answer() -> None:
    accepts = accepting(PLAIN, tools=[TOOL], tool_choice=ToolChoice(ToolMode.REQUIRED))
    assert accepts(CALL)
    assert not accepts('{"a": 1}')


def test_an_error_within_names_the_field_of_the_answer() -> None:
    inner = Grammar(GrammarKind.REGEX, "(?=a)", "guided_regex")
    grammar = Grammar(GrammarKind.LARK, "start: @inner", embedded=(("inner", inner),))
    with pytest.raises(RequestError, match="look-around") as raised:
        COMPILER.compile(grammar)
    assert raised.value.param == "guided_regex"
