"""Any arguments, as each family's template writes them, come back equal; damaged calls are not whole."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from tests.models.agent.families import FAMILIES, Family
from tests.models.chat.answers import Answer, read
from tests.models.chat.markers import MARKERS
from tests.models.chat.rendered import rendered_call

TOOL = Tool(
    "write",
    "Writes.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "deep": {"type": "object"},
            "list": {"type": "array", "items": {}},
        },
        "required": ["a", "b"],
    },
)
each = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
TAGS = ("qwen-xml", "seed", "glm", "minimax")

texts = st.lists(st.sampled_from(MARKERS) | st.text(max_size=3), max_size=8).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.text("abcdefg_", min_size=1, max_size=6)


@functools.cache
def chat_of(family: Family) -> Chat:
    return Chat(ChatTemplate(family.template, {"eos_token": "</s>"}))


def said_in(family: Family, text: str, cuts: random.Random | None = None) -> Answer:
    """Return what a text says, whole or in pieces of 1 to 9 characters."""
    parser = chat_of(family).prompt(ASKED).parser()
    pieces, at = [], 0
    while at < len(text):
        length = cuts.randint(1, 9) if cuts else len(text)
        pieces.append(text[at : at + length])
        at += length
    return read(parser, pieces)


def ambiguous(family: Family, arguments: dict[str, Any]) -> bool:
    """Return whether a value holds the sequence that ends it, or what else a family's way to write has no words for."""
    values = [value if isinstance(value, str) else json.dumps(value) for value in arguments.values()]
    squeezed = ["".join(value.split()) for value in values]
    match family.name:
        case "qwen-xml" | "seed":
            ends = ("</parameter></function>", "</parameter><parameter=")
        case "glm":
            ends = ("</arg_value></tool_call>", "</arg_value><arg_key>")
        case "minimax":
            ends = ("</parameter></invoke>", '</parameter><parametername="')
        case "gemma" | "functiongemma":
            # Keys that are no words, numbers that Jinja writes as Python does, and None are the template's faults.
            return any(quote in value for quote in ('<|"|>', "<escape>") for value in values)
        case _:
            return False
    if family.name == "seed" and any(value[:1] == "\n" or value[-1:] == "\n" for value in values):
        return True
    tail = {"qwen-xml": "</parameter>", "seed": "</parameter>", "glm": "</arg_value>", "minimax": "</parameter>"}
    return any(end in value or value.endswith(tail[family.name]) for end in ends for value in squeezed)


@each
@settings(max_examples=25, deadline=None)
@example(a='return "</parameter>"\nmore </arg_value> text', b=7, deep={}, items=[], seed=1)
@example(a="", b=0, deep={"a": {"b": [None, True, 1.5, '"\\']}}, items=["</parameter>", "</arg_value>\n"], seed=2)
@given(
    a=texts,
    b=st.integers(),
    deep=st.dictionaries(names, values, max_size=3),
    items=st.lists(values),
    seed=st.integers(),
)
def test_any_arguments_come_back_equal(
    family: Family, a: str, b: int, deep: dict[str, Any], items: list[Any], seed: int
) -> None:
    arguments = {"a": a, "b": b, "deep": deep, "list": items}
    if family.name.endswith("gemma"):
        arguments = {"a": a, "b": b, "list": [a, b, [a]]}
    assume(not ambiguous(family, arguments))
    text = rendered_call(chat_of(family), TOOL, arguments)
    said = said_in(family, text)
    assert [(call.name, call.whole) for call in said.calls] == [("write", True)], text
    assert json.loads(said.calls[0].arguments) == arguments
    assert "".join(said.text) == ""
    assert said_in(family, text, random.Random(seed)) == said


@each
def test_a_hundred_thousand_characters_come_back_equal(family: Family) -> None:
    numbers = random.Random(7)
    arguments = {"a": "".join(numbers.choice([*MARKERS, "word "]) + "." for _ in range(13_000)), "b": 1}
    text = rendered_call(chat_of(family), TOOL, arguments)
    for said in (said_in(family, text), said_in(family, text, numbers)):
        assert json.loads(said.calls[0].arguments) == arguments


def cut_off(family: Family) -> Iterator[str]:
    """A call that ends at each of its characters."""
    text = rendered_call(chat_of(family), TOOL, ARGUMENTS)
    return (text[:end] for end in range(len(text)))


def without_a_tag(family: Family) -> Iterator[str]:
    """A call that lacks one of its tags."""
    text = rendered_call(chat_of(family), TOOL, PLAIN)
    heads = [head for key in PLAIN for head in (f"<parameter={key}>", f'<parameter name="{key}">')]
    tags = [tag for tag in MARKERS if len(tag) > 4 and "<" in tag]
    for tag in {*tags, *heads, *chat_of(family).prompt(ASKED).visible}:
        start = text.find(tag)
        while start >= 0:
            yield text[:start] + text[start + len(tag) :]
            start = text.find(tag, start + 1)


ASKED = Conversation([Turn("user", "Go.")], tools=[TOOL])
ARGUMENTS: dict[str, Any] = {"a": 'x\n"</parameter>" <b>\n</arg_value>,\'y', "b": 27, "list": ["one", {"two": "3"}]}
PLAIN: dict[str, Any] = {"a": "one\ntwo", "b": 27, "list": ["one", "two"]}


@each
@pytest.mark.parametrize("damaged", [cut_off, without_a_tag])
def test_no_damaged_call_is_whole_with_other_arguments(
    family: Family, damaged: Callable[[Family], Iterator[str]]
) -> None:
    for text in damaged(family):
        said = said_in(family, text)
        assert said == said_in(family, text, random.Random(1)), text
        for call in said.calls:
            if call.whole:
                assert json.loads(call.arguments) in (ARGUMENTS, PLAIN), text
            else:
                with pytest.raises(ValueError, match=r"line 1|Expecting"):
                    json.loads(call.arguments)
