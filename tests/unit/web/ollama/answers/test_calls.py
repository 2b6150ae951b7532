"""Calls are shown whole, or not as calls."""

from __future__ import annotations

import pytest

from runtime.chat.parts import CallArguments, CallEnd, CallStart
from web.ollama.answers.calls import CallGatherer


def gathered(*arguments: str) -> object:
    calls = CallGatherer("ollama-1")
    assert calls.add(CallStart(0, "add")) is None
    for text in arguments:
        assert calls.add(CallArguments(0, text)) is None
    assert len(calls) == sum(map(len, arguments))
    whole = calls.add(CallEnd(0))
    assert len(calls) == 0
    return whole


def test_a_call_comes_when_it_is_whole() -> None:
    call = gathered('{"a": 1', ', "b": [2]}')
    assert isinstance(call, dict)
    assert call["function"] == {"index": 0, "name": "add", "arguments": {"a": 1, "b": [2]}}
    assert call["id"].startswith("call_")


def test_no_arguments_are_an_empty_object() -> None:
    call = gathered()
    assert isinstance(call, dict)
    assert call["function"]["arguments"] == {}


@pytest.mark.parametrize("text", ['{"a": ', "[1]", '"a"', '{"a": NaN}', "[" * 100_000])
def test_what_is_no_object_is_no_call(text: str) -> None:
    assert gathered(text) == text


def test_calls_at_a_time_are_told_apart_and_have_ids_of_their_own() -> None:
    calls = CallGatherer("ollama-1")
    for number in (0, 1):
        calls.add(CallStart(number, f"tool {number}"))
    calls.add(CallArguments(1, '{"x": 1}'))
    calls.add(CallArguments(0, '{"x": 0}'))
    first, second = calls.add(CallEnd(0)), calls.add(CallEnd(1))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["function"]["name"], first["function"]["arguments"]) == ("tool 0", {"x": 0})
    assert (second["function"]["name"], second["function"]["arguments"]) == ("tool 1", {"x": 1})
    assert first["id"] != second["id"]


def test_what_was_not_finished_is_text() -> None:
    calls = CallGatherer("ollama-1")
    calls.add(CallStart(0, "add"))
    calls.add(CallArguments(0, '{"a": '))
    assert calls.rest() == '{"a": '
    assert calls.rest() == ""
    assert len(calls) == 0
