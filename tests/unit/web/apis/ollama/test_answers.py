"""Objects that streams and whole answers are made of."""

from __future__ import annotations

import json

from runtime.chat.parts import CallStart
from web.apis.ollama.answers import Beginning, Beside, ContextIds, call_object, message_shape, response_shape, timestamp
from web.bodies.json_encoding import RawJson, iter_json


def test_the_ids_of_a_prompt_and_its_answer() -> None:
    ids = ContextIds("1,2")
    ids.add(3)
    ids.add(40)
    assert json.loads(b"".join(iter_json({"context": ids}))) == {"context": [1, 2, 3, 40]}
    assert len(ids) == len("1,2,3,40")


def test_times_are_written_with_microseconds_and_in_utc() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000000Z"
    assert timestamp(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"


def test_the_endpoints_show_the_same_in_shapes_of_their_own() -> None:
    begin: Beginning = {"model": "m", "created_at": "now"}
    beside: Beside = {"thinking": "b", "tool_calls": []}
    around = {"model": "m", "created_at": "now", "done": False}
    message = {"role": "assistant", "content": "a", "thinking": "b", "tool_calls": []}
    assert message_shape(begin, "a", beside, {"done": False}) == around | {"message": message}
    shown = {"response": "a", "thinking": "b", "tool_calls": []}
    assert response_shape(begin, "a", beside, {"done": False}) == around | shown
    assert response_shape(begin, "", {}, {"done": False}) == around | {"response": ""}


def test_each_call_is_an_object_with_an_id_of_its_own() -> None:
    made = [
        call_object("ollama-1", CallStart(0, "add"), RawJson('{"a": 1,\n"b": [2]}')),
        call_object("ollama-1", CallStart(1, "now"), RawJson("{}")),
    ]
    lines = [b"".join(iter_json(call)) for call in made]
    assert not any(b"\n" in line for line in lines)
    calls = [json.loads(line) for line in lines]
    assert [call["function"] for call in calls] == [
        {"index": 0, "name": "add", "arguments": {"a": 1, "b": [2]}},
        {"index": 1, "name": "now", "arguments": {}},
    ]
    assert len({call["id"] for call in calls}) == 2
