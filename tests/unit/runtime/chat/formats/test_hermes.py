"""Calls between `<tool_call>` and `</tool_call>`, and what all formats have in common."""

from __future__ import annotations

import json

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, ToolChoice, ToolMode, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import Answer, Call, assert_read, read
from tests.models.chat.grammars import accepts, added_tokens
from tests.models.chat.templates import CHATML, HERMES

WEATHER = Tool(
    "weather",
    "Tells it.",
    {
        "type": "object",
        "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["place"],
        "additionalProperties": False,
    },
    strict=True,
)
NOW = Tool("now")
REQUIRED = ToolChoice(ToolMode.REQUIRED)

TRICKY = json.dumps(
    {"place": 'Köln 東京 \N{GRINNING FACE} "a" {b} \\ </tool_call>\n', "deep": [{"a": [[], {}]}], "n": 10**40},
    ensure_ascii=False,
)
SCRIPT = (
    "<think>\nWhat now? <tool_call>\n</think>\n\nI look.\n\n"
    f'<tool_call>\n{{"name": "weather", "arguments": {TRICKY}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\nThat is all.'
)
SAID = Answer(
    "What now? <tool_call>",
    ["I look.", "", "That is all."],
    [Call("weather", TRICKY, whole=True), Call("now", "{}", whole=True)],
)


def asking(*tools: Tool, choice: ToolChoice | None = None, parallel: bool = True) -> Conversation:
    turns = [Turn("user", "Weather?")]
    return Conversation(turns, tools=tools, tool_choice=choice or ToolChoice(), parallel_tool_calls=parallel)


def called(arguments: str, rest: str = "", *, call_id: str | None = None, whole: bool = True) -> Answer:
    return Answer(text=["", rest], calls=[Call("f", arguments, call_id, whole=whole)])


def chat(template: str = HERMES, *added: str) -> Chat:
    return Chat(ChatTemplate(template), added_tokens(*added))


def test_a_scripted_answer_however_it_is_split() -> None:
    assert_read(chat().prompt(asking(WEATHER, NOW)).parser, SCRIPT, SAID)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "f", "arguments": {"a": 1', called('{"a": ', whole=False)),
        ('{"arguments": {"a": 1}, "name": "f"}', called('{"a": 1}')),
        ('{"name": "f"}</tool_call>', called("{}")),
        ('{"name": "f", "arguments": null}', called("{}")),
        ('{"name": "f", "arguments": "{\\"a\\": \\"\\u00e9\\"}"}</tool_call>', called('{"a": "é"}')),
        (
            '{"id": "x1", "name": "f", "more": [1], "arguments": {"a": "b\nc"}}</tool_call>',
            called('{"a": "b\\nc"}', call_id="x1"),
        ),
        ('{"name": "f", "arguments": {"a": nope}}</tool_call>', called('{"a": nope', "}}</tool_call>", whole=False)),
        (
            '{"name": "f", "arguments": "{\\"a\\": 1}}"}</tool_call>',
            called('{"a": 1}}', "}</tool_call>", whole=False),
        ),
        (
            '{"name": "f", "arguments": "{\\"a\\": 1} trailing"}</tool_call>',
            called('{"a": 1}trailing', "}</tool_call>", whole=False),
        ),
        (
            '{"name": "f", "arguments": "{\\"a\\": nope}"}</tool_call>',
            called('{"a": nope}', "}</tool_call>", whole=False),
        ),
        ('{"name": "f", "arguments": " {\\"a\\": 1} \\n"}</tool_call>', called('{"a": 1}')),
    ],
)
def test_what_is_odd_and_a_call(text: str, expected: Answer) -> None:
    assert_read(chat(CHATML).prompt(asking(WEATHER)).parser, f"<tool_call>{text}", expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <tool_call> b </tool_call>", Answer(text=["a <tool_call> b </tool_call>"])),
        (
            'a <tool_call> <tool_call>{"name": "f"}</tool_call>',
            Answer(text=["a <tool_call>", ""], calls=[Call("f", "{}", whole=True)]),
        ),
        ('<tool_call>{"name": 7}', Answer(text=['<tool_call>{"name": 7}'])),
        ("<tool_call>{}</tool_call>", Answer(text=["<tool_call>{}</tool_call>"])),
        ("a \n<tool_cal", Answer(text=["a \n<tool_cal"])),
        (" \n a \n ", Answer(text=[" \n a \n "])),
    ],
)
def test_what_is_no_call(text: str, expected: Answer) -> None:
    assert_read(chat(CHATML).prompt(asking(WEATHER)).parser, text, expected)


def test_without_tools_a_marker_is_text() -> None:
    assert read(chat(CHATML).prompt(asking()).parser(), [SCRIPT]).text == [SCRIPT]
    none = chat(CHATML).prompt(asking(WEATHER, choice=ToolChoice(ToolMode.NONE)))
    assert read(none.parser(), [SCRIPT]).text == [SCRIPT]


@pytest.mark.parametrize("added", [(), ("<tool_call>", "</tool_call>", "<think>", "</think>")], ids=["text", "tokens"])
def test_its_grammar(added: tuple[str, ...]) -> None:
    model = chat(HERMES, *added)
    right = '<tool_call>\n{"name": "weather", "arguments": {"place": "Köln {", "days": 3}}\n</tool_call>'
    wrong = right.replace("3", '"3"')
    other = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    required = model.prompt(asking(WEATHER, NOW, choice=REQUIRED)).grammar
    assert required
    for text in (right, other, f"{right}\n{other}", f"<think>\nx\n</think>\n\n{right}"):
        assert accepts(required, text, *added), text
    for text in ("", "Hello", wrong, f"{right} and", right[:-3], right.replace("weather", "weathers")):
        assert not accepts(required, text, *added), text
    automatic = model.prompt(asking(WEATHER, NOW)).grammar
    assert automatic
    thoughtful = f"<think>\n{{}}</think>{right}"
    for text in ("", "Hello <tool", right, f"Hello\n{right}\n{other} and", thoughtful, f" \n{thoughtful}"):
        assert accepts(automatic, text, *added), text
    for text in (wrong, f"Hello\n{wrong}", f"{right}\n{wrong}"):
        assert not accepts(automatic, text, *added), text


def test_a_named_tool_allowed_tools_and_one_call_at_a_time() -> None:
    right, other = (f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in ("now", "then"))
    tools = (NOW, Tool("then"), WEATHER)
    named = chat().prompt(asking(*tools, choice=ToolChoice(ToolMode.REQUIRED, ("now",)), parallel=False)).grammar
    assert named
    assert [accepts(named, text) for text in (right, other, right + right)] == [True, False, False]
    allowed = chat().prompt(asking(*tools, choice=ToolChoice(names=("now", "weather")))).grammar
    assert allowed
    assert [accepts(allowed, text) for text in (right, other, right + right, "no")] == [True, False, True, True]
    single = chat().prompt(asking(NOW, parallel=False)).grammar
    assert single
    assert [accepts(single, text) for text in (right, f"a {right}\n", "a", right + right)] == [True, True, True, False]


def test_a_required_answer_comes_to_an_end() -> None:
    call = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    required = chat().prompt(asking(NOW, choice=REQUIRED)).grammar
    assert required
    assert [accepts(required, call * count) for count in (1, 7, 8, 9)] == [True, True, True, False]
    named = chat().prompt(asking(NOW, WEATHER, choice=ToolChoice(ToolMode.REQUIRED, ("now",)))).grammar
    assert named
    assert [accepts(named, call * count) for count in (0, 1, 2)] == [False, True, False]
    automatic = chat().prompt(asking(NOW, choice=ToolChoice(names=("now",)))).grammar
    assert automatic
    assert accepts(automatic, call * 9)


def test_nothing_is_held_to_a_grammar_that_need_not_be() -> None:
    assert chat().prompt(asking(NOW)).grammar is None
    assert chat().prompt(asking(NOW)).visible == {"<tool_call>", "</tool_call>", "<think>", "</think>"}
    assert chat(CHATML).prompt(asking()).visible == frozenset()


def test_an_unknown_keyword_of_a_schema_is_left_out_unless_the_tool_is_strict() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {"const": "b"}}}}
    lenient = chat().prompt(asking(Tool("f", parameters=schema), choice=REQUIRED)).grammar
    assert lenient
    assert accepts(lenient, '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call>')
    strict = chat().prompt(asking(Tool("f", parameters=schema, strict=True), choice=REQUIRED)).grammar
    assert strict
    with pytest.raises(AssertionError, match="not"):
        accepts(strict, "")
