"""Calls as Ollama's objects."""

from __future__ import annotations

import json

from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part
from web.bodies.json_encoding import iter_json
from web.ollama.answers.calls import CallShapes


def test_each_call_is_an_object_with_an_id_of_its_own() -> None:
    shapes = CallShapes("ollama-1")
    parts: list[Part] = [
        *(CallStart(0, "add"), CallArguments(0, '{"a": 1,\n"b": [2]}'), CallEnd(0)),
        *(CallStart(1, "now"), CallArguments(1, "{}"), CallEnd(1)),
    ]
    made = [call for part in parts if (call := shapes.of(part)) is not None]
    lines = [b"".join(iter_json(call)) for call in made]
    assert not any(b"\n" in line for line in lines)
    calls = [json.loads(line) for line in lines]
    assert [call["function"] for call in calls] == [
        {"index": 0, "name": "add", "arguments": {"a": 1, "b": [2]}},
        {"index": 1, "name": "now", "arguments": {}},
    ]
    assert len({call["id"] for call in calls}) == 2
