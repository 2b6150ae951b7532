"""A template of the kind that gpt-oss has: macros that call themselves, dates, namespaces, looks at later messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from runtime.chat.template import ChatTemplate
from runtime.errors import RequestError
from tests.models.small_tokenizers import byte_level

if TYPE_CHECKING:
    from pathlib import Path

HARMONY = """
{%- macro type_of(spec) -%}
    {%- if spec.type == "array" -%}
        {%- set inner = type_of(spec['items']) -%}
        {{- inner + "[]" if inner | length < 50 else "any[]" }}
    {%- elif spec.type is iterable and spec.type is not string and spec.type is not mapping -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum | join('" | "') + '"' -}}
    {%- elif spec.type == "object" -%}
        {{- "{" }}
        {%- for name, part in spec.properties.items() -%}
            {{- name + ("" if name in (spec.required or []) else "?") + ": " + type_of(part) -}}
            {%- if not loop.last -%}{{- ", " }}{%- endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- else -%}
        {{- {"integer": "number"}.get(spec.type, spec.type) }}
    {%- endif -%}
{%- endmacro -%}

{%- macro system_text() -%}
    {%- if effort is not defined %}
        {%- set effort = "medium" %}
    {%- endif %}
    {{- "Today: " + strftime_now("%Y-%m-%d") + "\\n" }}
    {{- "Reasoning: " + effort }}
{%- endmacro -%}

{{- "<|start|>system<|message|>" + system_text() + "<|end|>" }}
{%- if messages[0].role in ("developer", "system") %}
    {%- set instructions = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set instructions = "" %}
    {%- set turns = messages %}
{%- endif %}
{%- if instructions or tools %}
    {{- "<|start|>developer<|message|>" + instructions }}
    {%- for tool in tools or [] %}
        {%- set tool = tool.function %}
        {{- "\\n// " + tool.description + "\\ntype " + tool.name + " = (_: " + type_of(tool.parameters) + ") => any;" }}
    {%- endfor %}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in turns -%}
    {%- if message.role == "assistant" -%}
        {%- if "<|channel|>" in (message.content or "") %}
            {{- raise_exception("channel tags are no content") }}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set later = namespace(final=false) %}
            {%- for other in turns[loop.index:] %}
                {%- if other.role == "assistant" and "tool_calls" not in other %}
                    {%- set later.final = true %}
                {%- endif %}
            {%- endfor %}
            {%- if message.thinking and not later.final %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
            {%- endif %}
            {%- set call = message.tool_calls[0].function %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}
            {{- (call.arguments if call.arguments is string else call.arguments | tojson) + "<|call|>" }}
            {%- set last_call.name = call.name %}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_call.name = none %}
        {%- endif %}
    {%- elif message.role == "tool" -%}
        {%- if last_call.name is none %}
            {{- raise_exception("a tool spoke that nobody called") }}
        {%- endif %}
        {{- "<|start|>functions." + last_call.name + " to=assistant<|channel|>commentary<|message|>" }}
        {{- message.content | tojson + "<|end|>" }}
    {%- elif message.role == "user" -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""

PARAMETERS = {
    "type": "object",
    "required": ["place"],
    "properties": {
        "place": {"type": "string"},
        "days": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "where": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}},
    },
}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}}]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"place": "Köln", "days": [[1]]}}}
ASKED: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "thinking": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "content": "sun"},
]
ANSWERED = [*ASKED, {"role": "assistant", "content": "Sun."}, {"role": "user", "content": "Thanks"}]


@pytest.mark.parametrize("variables", [{}, {"tools": TOOLS}, {"effort": "high"}], ids=["plain", "tools", "effort"])
@pytest.mark.parametrize("messages", [ASKED, ANSWERED, ASKED[1:2]], ids=["asked", "answered", "one"])
def test_parity_with_transformers(messages: list[dict[str, Any]], variables: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    byte_level().save(str(tmp_path / "tokenizer.json"))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    expected = theirs.apply_chat_template(
        messages, chat_template=HARMONY, tokenize=False, add_generation_prompt=True, **variables
    )
    assert ChatTemplate(HARMONY).render(messages, **variables) == expected


def test_what_it_says() -> None:
    text = ChatTemplate(HARMONY).render(ASKED, tools=TOOLS)
    assert f"Today: {datetime.now():%Y-}" in text
    assert (
        'type weather = (_: {place: string, days?: number[][], unit?: "C" | "F", where?: {x?: number | null}}) => any;'
        in text
    )
    assert "<|channel|>analysis<|message|>I look.<|end|>" in text
    assert 'to=functions.weather<|channel|>commentary json<|message|>{"place": "Köln", "days": [[1]]}<|call|>' in text
    answer = '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"sun"<|end|>'
    assert text.endswith(f"{answer}<|start|>assistant")


def test_what_was_thought_is_left_out_once_there_is_an_answer() -> None:
    text = ChatTemplate(HARMONY).render(ANSWERED)
    assert "I look." not in text
    assert "<|channel|>final<|message|>Sun.<|end|>" in text


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([{"role": "tool", "content": "sun"}], "a tool spoke that nobody called"),
        ([{"role": "assistant", "content": "<|channel|>final"}], "channel tags are no content"),
    ],
)
def test_what_it_refuses_is_the_client_s_error(messages: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        ChatTemplate(HARMONY).render(messages)
