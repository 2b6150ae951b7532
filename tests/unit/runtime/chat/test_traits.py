"""Traits of a template, found by rendering small chats."""

from __future__ import annotations

import pytest

from runtime.chat.template import ChatTemplate
from runtime.chat.traits import CONTENT_ABSENT, CONTENT_EMPTY, CONTENT_NULL, CallIds, CallTraits, traits_of
from tests.models.chat import templates

CALLS = """
{%- for m in messages -%}
    {{- m.role + " " + (m.content or "") -}}
    {%- for call in m.tool_calls or [] -%}{{- call.function.name -}}{{- ARGUMENTS -}}{%- endfor -%}
{%- endfor -%}
"""


def calls_of(arguments: str) -> CallTraits | None:
    return traits_of(ChatTemplate(CALLS.replace("ARGUMENTS", arguments))).calls


@pytest.mark.parametrize(
    "arguments",
    [
        "call.function.arguments",  # an object would be shown as Python writes it
        "'' ~ call.function.arguments",
        "call.function.arguments | string",
    ],
)
def test_arguments_that_would_be_shown_as_python_writes_them_are_text(arguments: str) -> None:
    assert calls_of(arguments) == CallTraits(arguments_as_text=True)


def test_arguments_that_are_written_as_json_are_an_object() -> None:
    assert calls_of("call.function.arguments | tojson") == CallTraits()


def test_a_template_that_hides_arguments_shows_no_calls() -> None:
    assert calls_of("''") is None


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (templates.HERMES, CallTraits()),
        (templates.MISTRAL, CallTraits(ids=CallIds.SHORT)),
        (templates.KIMI, CallTraits(ids=CallIds.NAMED)),
        (templates.DEEPSEEK, CallTraits(arguments_as_text=True, content=CONTENT_NULL)),
        (templates.GEMMA_4, CallTraits()),
        (templates.CHATML, None),
    ],
)
def test_calls_of_families(template: str, expected: CallTraits | None) -> None:
    assert traits_of(ChatTemplate(template)).calls == expected


def test_a_turn_without_text_can_have_to_say_so() -> None:
    assert CallTraits().content == CONTENT_ABSENT
    strict = CALLS.replace('(m.content or "")', "m.content").replace("ARGUMENTS", "call.function.arguments | tojson")
    assert traits_of(ChatTemplate(strict)).calls == CallTraits(content=CONTENT_EMPTY)
