"""The same answers, read by cede and by transformers' parser of responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from tests.models.chat.answers import read
from tests.models.chat.templates import GEMMA_4, GLM, GLM_47, HERMES, MINIMAX, OPENED, QWEN_XML

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


def theirs(calls: dict[str, Any], anchor: str, thought: dict[str, Any] | None = None) -> dict[str, Any]:
    fields = {"reasoning_content": thought or THOUGHT, "tool_calls": calls, "content": {"content": "text"}}
    return {"defaults": {"role": "assistant"}, "start_anchor": anchor, "fields": fields}


IM = "<|im_start|>assistant\n"
FIRST = '{"name": "weather", "arguments": {"place": "Köln {\\"a\\"}\\n", "days": 3, "more": [{"a": null}]}}'
SECOND = '{"name": "now", "arguments": {}}'
TAGGED = (
    "<tool_call>\n<function=weather>\n<parameter=place>\nKöln <b> 3\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "<parameter=more>\n[1, {}]\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=now>\n</function>\n</tool_call>"
)


GLM_CALLS = {
    "open_pattern": r"\s*<tool_call>(?P<name>[^\s<]+)\s*",
    "close": "</tool_call>",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<arg_key>(?P<key>[^<]+)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>"},
    "transform": NAMED,
}
MINIMAX_CALLS = {
    "open_pattern": r'\s*(?:<minimax:tool_call>)?\s*<invoke name="(?P<name>[^"]+)">',
    "close_pattern": r"</invoke>\s*(?:</minimax:tool_call>)?",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": r'<parameter name="(?P<key>[^"]+)">(?P<value>.*?)</parameter>'},
    "transform": NAMED,
}
# As in Gemma 4's own tokenizer_config.json, but for the name of the field.
GEMMA_THOUGHT = {"open": "<|channel>thought\n", "close": "<channel|>", "content": "text"}
GEMMA_CALLS = {
    "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
    "close": "<tool_call|>",
    "repeats": True,
    "content": "json",
    "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
    "transform": NAMED,
}
GEMMA_FIRST = 'call:weather{days:3,more:[{a:null},true,-1.5e3,[]],place:<|"|>Köln "a", b: {c}\n<|"|>}'
GLM_FIRST = (
    "<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Köln <b> 3</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>more</arg_key>\n<arg_value>[1, {}]</arg_value>\n"
    "</tool_call>"
)
INVOKED = (
    '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="place">Köln <b> 3</parameter>\n'
    '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>'
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
        (
            GEMMA_4,
            theirs(GEMMA_CALLS, "<turn>model\n", GEMMA_THOUGHT),
            f"I look.<|tool_call>{GEMMA_FIRST}<tool_call|><|tool_call>call:now{{}}<tool_call|>",
        ),
        (
            GEMMA_4,
            theirs(GEMMA_CALLS, "<turn>model\n", GEMMA_THOUGHT),
            f"<|channel>thought\nSo.\n<channel|><|tool_call>{GEMMA_FIRST}<tool_call|>",
        ),
        (
            GLM,
            theirs(GLM_CALLS, "<|assistant|>"),
            f"\n<think>So.</think>\nI look.\n{GLM_FIRST}\n<tool_call>now\n</tool_call>",
        ),
        (GLM_47, theirs(GLM_CALLS, "<|assistant|>"), GLM_FIRST.replace("\n", "")),
        (MINIMAX, theirs(MINIMAX_CALLS, "]~b]ai\n"), f"So.\n</think>\n\nI look.\n{INVOKED}"),
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
