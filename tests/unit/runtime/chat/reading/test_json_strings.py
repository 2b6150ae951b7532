"""Strings and what they say, and the inputs of custom tools."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, PlainParser, TextPart
from runtime.chat.reading.json_strings import CustomInputs, JsonString


class Told(PlainParser):
    """A parser that returns what it is told."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    def push(self, text: str) -> list[Part]:
        """Return the next part."""
        return [self._parts.pop(0)]


@given(st.text(), st.booleans(), st.integers(1, 7))
def test_it_says_what_the_library_says(text: str, ensure_ascii: bool, size: int) -> None:
    written = json.dumps(text, ensure_ascii=ensure_ascii)
    string = JsonString()
    said = "".join(string.feed(written[at : at + size])[1] for at in range(0, len(written), size))
    assert said == text
    assert string.done


@pytest.mark.parametrize(
    ("written", "said"), [(r"\ud83d", "?"), (r"\ud83dx", "?x"), (r"\ude00\ud83d\ud83d\ude00", "??😀")]
)
def test_half_of_a_pair_is_replaced(written: str, said: str) -> None:
    assert JsonString().feed(f'"{written}"')[1] == said.replace("?", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (["{", ' "inp', 'ut" : ', '"a\\', "n{b}\\u00", 'e9"', "}"], "a\n{b}é"),
        (['{"input": ""}'], ""),
        (['{"other": 1}'], '{"other": 1}'),
        (['{"other": "', "x" * 70, '"}'], f'{{"other": "{"x" * 70}"}}'),
    ],
)
def test_the_input_of_a_custom_tool_is_its_text(pieces: list[str], said: str) -> None:
    deltas = [CallArguments(0, piece) for piece in pieces]
    parser = CustomInputs(Told([CallStart(0, "c"), *deltas, CallEnd(0), TextPart("x")]), {"c"})
    parts = [part for _ in range(len(pieces) + 3) for part in parser.push("")]
    assert parts[0] == CallStart(0, "c")
    assert parts[-2:] == [CallEnd(0), TextPart("x")]
    assert "".join(part.text for part in parts[1:-2] if isinstance(part, CallArguments)) == said


def test_what_is_held_when_the_answer_is_cut_off_comes_with_its_end() -> None:
    parser = CustomInputs(Told([CallStart(0, "c"), CallArguments(0, '{"in')]), {"c"})
    assert [*parser.push(""), *parser.push("")] == [CallStart(0, "c")]
    assert parser.finish() == [CallArguments(0, '{"in')]


def test_other_calls_are_left_alone() -> None:
    parser = CustomInputs(Told([CallStart(0, "f"), CallArguments(0, '{"input": "a"}')]), {"c"})
    assert [*parser.push(""), *parser.push("")] == [CallStart(0, "f"), CallArguments(0, '{"input": "a"}')]
