"""Answers, as their chunks come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.commands.client.answer import Answer, Delta, EventParser


def chunk(**delta: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": None, "delta": delta}]}


def test_chunks_add_up() -> None:
    answer = Answer()
    assert not answer.take(chunk(role="assistant", content=""))
    assert answer.take(chunk(reasoning_content="hm")) == Delta(reasoning="hm")
    assert answer.take(chunk(reasoning=", well")) == Delta(reasoning=", well")
    assert answer.take(chunk(content="Hello")) == Delta("Hello")
    assert answer.take(chunk(content=" you")) == Delta(" you")
    last = {"finish_reason": "length", "delta": {}, "cede": {"cancelled": "operator"}}
    assert not answer.take({"id": "chatcmpl-1", "choices": [last], "timings": {"predicted_n": 2}})
    assert not answer.take({"choices": [], "usage": {"completion_tokens": 4}})
    assert (answer.id, answer.text, answer.reasoning) == ("chatcmpl-1", "Hello you", "hm, well")
    assert (answer.finish_reason, answer.cancelled) == ("length", "operator")
    assert (answer.usage, answer.timings) == ({"completion_tokens": 4}, {"predicted_n": 2})


def test_an_answer_that_was_sent_whole_is_one_piece() -> None:
    message = {"role": "assistant", "content": "Hello", "reasoning_content": "hm"}
    answer = Answer()
    whole = {"id": "c", "choices": [{"finish_reason": "stop", "message": message}], "usage": {"completion_tokens": 1}}
    assert answer.take(whole) == Delta("Hello", "hm")
    assert answer.usage == {"completion_tokens": 1}


@pytest.mark.parametrize("error", [{"message": "too much", "code": "x"}, "too much"])
def test_an_error_in_a_stream_is_kept(error: object) -> None:
    answer = Answer()
    assert not answer.take({"error": error})
    assert answer.error == "too much"


@given(st.lists(st.text(), min_size=1), st.data())
def test_events_are_whole_however_the_stream_is_cut(texts: list[str], data: st.DataObject) -> None:
    events = [chunk(content=text) for text in texts]
    stream = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    stream += b": a comment\n\ndata: [DONE]\n\n"
    parser, found = EventParser(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        assert not parser.done
        found += parser.feed(stream[:size])
        stream = stream[size:]
    assert found == events
    assert parser.done
