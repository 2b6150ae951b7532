"""Texts in quotes of other kinds than the model's markers, as simpler templates and weaker models write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import read
from tests.models.chat.templates import GEMMA_4


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a:'a, b'", {"a": "a, b"}),
        ('a:"p"', {"a": "p"}),
        ('a:\'it\\\'s\',b:"x \\"y\\""', {"a": "it's", "b": 'x "y"'}),
        ("a:'',b:['x','y, z'],c:{d:'}'}", {"a": "", "b": ["x", "y, z"], "c": {"d": "}"}}),
        ("'a':'x',\"b\":1", {"a": "x", "b": 1}),
        ('a:"p",b:<|"|>q "r"<|"|>', {"a": "p", "b": 'q "r"'}),
    ],
)
def test_quotes_of_another_kind_are_no_part_of_a_text(written: str, expected: dict[str, Any]) -> None:
    prompt = Chat(ChatTemplate(GEMMA_4)).prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")]))
    text = f"<|tool_call>call:f{{{written}}}<tool_call|>"
    for pieces in ([text], list(text)):
        (call,) = read(prompt.parser(), pieces).calls
        assert call.whole
        assert json.loads(call.arguments) == expected
