"""Calls without any marker, and what only looks like one."""

from __future__ import annotations

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import Answer, Call, assert_read
from tests.models.chat.templates import LLAMA

PARSER = Chat(ChatTemplate(LLAMA)).prompt(Conversation([Turn("user", "Hi")], tools=[Tool("f")])).parser
CALL = Call("f", "{}", whole=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "parameters": {}}',
        '{"name": "Ada"}',
        '{"answer": 7}',
        ' {"parameters": {"name": "f"}}',
    ],
)
def test_an_object_that_names_no_tool_is_text(text: str) -> None:
    assert_read(PARSER, text, Answer(text=[text]))


def test_behind_the_tag_any_name_is_a_call_and_the_client_sees_which() -> None:
    called = Call("Ada", "{}", whole=True)
    assert_read(PARSER, '<|python_tag|>{"name": "Ada", "parameters": {}}', Answer(text=["", ""], calls=[called]))


def test_a_second_object_has_to_name_a_tool_as_well() -> None:
    text = '<|python_tag|>{"name": "f", "parameters": {}}; {"name": "Ada", "parameters": {}}'
    assert_read(PARSER, text, Answer(text=["", '; {"name": "Ada", "parameters": {}}'], calls=[CALL]))
