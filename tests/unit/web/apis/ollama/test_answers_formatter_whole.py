"""An answer that is sent whole says what its stream says."""

from __future__ import annotations

import json
from typing import Any

from actors.core.generation import Event
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import fill, finished, say, token
from tests.unit.web.apis.ollama.parsers import options
from web.apis.ollama.answers import AnswerFormatter, AnswerOptions, response_shape
from web.bodies.json_encoding import iter_json

PAGE = 16


def built(asked: AnswerOptions, *events: Event) -> dict[str, Any]:
    builder = AnswerFormatter(asked, PAGE)
    fill(builder, events)
    whole: dict[str, Any] = json.loads(b"".join(iter_json(builder.result())))
    return whole


def test_it_says_what_the_stream_says() -> None:
    events = say("?h", "?m", "(add", ',{"a": 1}', ")", "Hel", "lo")
    whole = built(options(), *events)
    writer = AnswerFormatter(options())
    written = b"".join(piece for event in events for piece in writer.write(event)) + writer.closing()
    lines = [json.loads(line) for line in written.splitlines()]
    messages = [line["message"] for line in lines]
    assert whole["message"] == {
        "role": "assistant",
        "content": "".join(message["content"] for message in messages),
        "thinking": "hm",
        "tool_calls": [call for message in messages for call in message.get("tool_calls", [])],
    }
    assert {k: v for k, v in whole.items() if k != "message"} == {k: v for k, v in lines[-1].items() if k != "message"}


def test_what_nobody_thought_or_called_is_left_out() -> None:
    assert built(options(), *say("a"))["message"] == {"role": "assistant", "content": "a"}


def test_a_text_with_its_ids_and_log_probabilities() -> None:
    asked = options(shape=response_shape, context="7", logprobs=True)
    whole = built(asked, token("A", logprobs=TokenLogprobs(-0.5)), finished(text="!"))
    assert whole["response"] == "A!"
    assert whole["context"] == [7, 65]
    assert whole["logprobs"] == [{"token": "A", "logprob": -0.5, "bytes": [65]}]


def test_its_length_is_the_bytes_that_it_holds() -> None:
    builder = AnswerFormatter(options(context="7"), PAGE)
    lengths = [len(builder)]
    for event in say("a", "?b", "(add", ',{"a": 1}', ")"):
        fill(builder, [event])
        lengths.append(len(builder))
    assert lengths == sorted(lengths)
    assert lengths[-1] > len('a b {"a": 1}')
