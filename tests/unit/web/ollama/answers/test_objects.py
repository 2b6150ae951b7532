"""What streams and whole answers are made of."""

from __future__ import annotations

import json

from web.bodies.json_encoding import iter_json
from web.ollama.answers.objects import ContextIds, message_shape, response_shape, timestamp


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
    assert message_shape("a", "b", [{}]) == {
        "message": {"role": "assistant", "content": "a", "thinking": "b", "tool_calls": [{}]}
    }
    assert response_shape("a", "b", [{}]) == {"response": "a", "thinking": "b", "tool_calls": [{}]}
    assert response_shape("", None, ()) == {"response": ""}
