"""The same answers, read by cede and by transformers' parser of responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import read
from tests.models.chat.templates import HERMES, OPENED, QWEN_XML

parsing = pytest.importorskip("transformers.utils.chat_parsing")

PARAMETERS = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "days": {"type": "integer"}, "more": {"type": "array"}},
}
TOOLS = [Tool("weather", "Tells it.", PARAMETERS), Tool("now", parameters={"type": "object", "properties": {}})]
THOUGHT = {"open": "<think>", "close": "</think>", "content": "text"}
FUNCTION = {"type": "function", "function": "{content}"}
NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
JSON_CALLS = {
    "open_pattern": r"\s*<tool_call>",
    "close": "</tool_call>",
    "repeats": True,
    "content": "json",
    "transform": FUNCTION,
}
TAG_CALLS = {
    "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>]+)>",
    "close_pattern": r"</function>\s*</tool_call>",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\n(?P<value>.*?)\n</parameter>"},
    "transform": NAMED,
}


def theirs(calls: dict[str, Any], anchor: str) -> dict[str, Any]:
    fields = {"reasoning_content": THOUGHT, "tool_calls": calls, "content": {"content": "text"}}
    return {"defaults": {"role": "assistant"}, "start_anchor": anchor, "fields": fields}


IM = "<|im_start|>assistant\n"
FIRST = '{"name": "weather", "arguments": {"place": "Köln {\\"a\\"}\\n", "days": 3, "more": [{"a": null}]}}'
SECOND = '{"name": "now", "arguments": {}}'
TAGGED = (
    "<tool_call>\n<function=weather>\n<parameter=place>\nKöln <b> 3\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "<parameter=more>\n[1, {}]\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=now>\n</function>\n</tool_call>"
)


@pytest.mark.parametrize(
    ("template", "response", "answer"),
    [
        (HERMES, theirs(JSON_CALLS, IM), "Good day."),
        (HERMES, theirs(JSON_CALLS, IM), "<think>\nSo.\n</think>\n\nGood day."),
        (HERMES, theirs(JSON_CALLS, IM), f"<tool_call>\n{FIRST}\n</tool_call>"),
        (
            HERMES,
            theirs(JSON_CALLS, IM),
            f"<think>\nSo.\n</think>\n\nI look.\n<tool_call>{FIRST}</tool_call>\n<tool_call>\n{SECOND}\n</tool_call>",
        ),
        (OPENED, theirs(JSON_CALLS, "<|Assistant|>"), "So.\n</think>\n\nGood day."),
        (QWEN_XML, theirs(TAG_CALLS, IM), f"I look.\n{TAGGED}"),
    ],
)
def test_they_say_the_same(template: str, response: dict[str, Any], answer: str) -> None:
    prompt = Chat(ChatTemplate(template)).prompt(Conversation([Turn("user", "Weather?")], tools=TOOLS))
    schemas = [
        {"type": "function", "function": {"name": tool.name, "description": "", "parameters": tool.parameters}}
        for tool in TOOLS
    ]
    expected = parsing.parse_response(answer, response, prefix=prompt.text, tools=schemas)
    said = read(prompt.parser(), list(answer))
    assert said.reasoning == expected.get("reasoning_content", "")
    assert "".join(said.text) == expected.get("content", "")
    calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in said.calls]
    assert calls == [call["function"] for call in expected.get("tool_calls", [])]
