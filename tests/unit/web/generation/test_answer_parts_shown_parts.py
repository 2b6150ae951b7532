"""Calls that come whole or as text, and texts that are one string."""

from __future__ import annotations

import pytest

from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from web.generation.answer_parts import OneText, WholeCalls

START, PIECES, END = CallStart(0, "add"), [CallArguments(0, '{"a"'), CallArguments(0, ": 1}")], CallEnd(0)


def shown(*parts: Part) -> list[Part]:
    calls = WholeCalls()
    made = [one for part in parts for one in calls.of([part], last=False)]
    made += calls.of([], last=True)
    assert len(calls) == 0 or not isinstance(parts[-1], CallEnd)
    return made


def test_a_call_comes_when_it_is_whole() -> None:
    assert shown(START, *PIECES, END) == [START, CallArguments(0, '{"a": 1}'), END]
    assert shown(TextPart("x"), START, END) == [TextPart("x"), START, CallArguments(0, "{}"), END]
    held = WholeCalls()
    assert list(held.of([START, *PIECES], last=False)) == []
    assert len(held) == 8
    assert len(list(held.of([END], last=False))) == 3
    assert len(held) == 0


@pytest.mark.parametrize("behind", [(), (TextPart("b"),), (ReasoningPart("b"),), (CallStart(1, "c"), CallEnd(1))])
def test_a_broken_call_is_text_with_its_name_where_it_was(behind: tuple[Part, ...]) -> None:
    rest = shown(*behind)
    text = '{"name": "add", "arguments": {"a"'
    assert shown(START, PIECES[0], *behind) == [TextPart(text), *rest]
    assert shown(TextPart("a"), START, PIECES[0], *behind) == [TextPart("a"), TextPart(f"\n{text}"), *rest]


def test_texts_between_calls_are_lines() -> None:
    call: list[Part] = [START, END]
    texts = OneText()
    parts = [*call, TextPart("a"), TextPart("b"), *call, *call, TextPart(""), TextPart("c")]
    expected = [*call, TextPart("a"), TextPart("b"), *call, *call, TextPart(""), TextPart("\nc")]
    assert list(texts.of(parts)) == expected
