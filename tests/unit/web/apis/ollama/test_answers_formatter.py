"""Streams are lines of JSON, each an object that a strict client reads."""

from __future__ import annotations

import json
from typing import Any

from actors.core.generation import Event, Failed, FinishReason
from runtime.errors import StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import finished, say, token
from tests.unit.web.apis.ollama.parsers import options
from web.apis.ollama.answers import AnswerFormatter, response_shape

Json = dict[str, Any]


def lines(writer: AnswerFormatter, *events: Event) -> list[Json]:
    written = b"".join(piece for event in events for piece in writer.write(event))
    written += writer.closing() if writer.finished else b""
    assert written.endswith(b"\n")
    return [json.loads(line) for line in written.splitlines()]


def test_a_chat() -> None:
    first, second, last = lines(AnswerFormatter(options()), *say("Hel", "lo"))
    envelope = {"model": "bytes", "created_at": "1970-01-01T12:00:00.000000Z"}
    assert first == envelope | {"message": {"role": "assistant", "content": "Hel"}, "done": False}
    assert second["message"]["content"] == "lo"
    assert last == envelope | {
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 1_000_000_000,
        "load_duration": 984_000_000,
        "prompt_eval_count": 3,
        "prompt_eval_duration": 6_000_000,
        "eval_count": 2,
        "eval_duration": 10_000_000,
    }


def test_the_end_is_written_last_when_the_slot_is_free() -> None:
    writer = AnswerFormatter(options())
    assert not list(writer.write(finished()))
    assert writer.finished
    assert json.loads(writer.closing())["done"] is True


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    *_, last = lines(AnswerFormatter(options(started=1e12)), finished())
    assert (last["total_duration"], last["load_duration"]) == (16_000_000, 0)


def test_thoughts_and_calls() -> None:
    events = say("?hm", "(add", ',{"a": ', ",1}", ")", "so")
    thought, call, text, last = lines(AnswerFormatter(options()), *events)
    assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    (made,) = call["message"]["tool_calls"]
    assert made["function"] == {"index": 0, "name": "add", "arguments": {"a": 1}}
    assert text["message"]["content"] == "so"
    assert last["done_reason"] == "stop"  # as in Ollama, which has no reason of its own for calls


def test_a_call_that_was_cut_is_text() -> None:
    events: list[Event] = [token("(add"), token(',{"a"'), finished(reason=FinishReason.LENGTH)]
    text, last = lines(AnswerFormatter(options()), *events)
    assert text["message"] == {"role": "assistant", "content": '{"name": "add", "arguments": {"a"'}
    assert last["done_reason"] == "length"


def test_text_that_was_held_back_comes_before_the_end() -> None:
    text, last = lines(AnswerFormatter(options()), token(""), finished(text="rest"))
    assert (text["message"]["content"], text["done"]) == ("rest", False)
    assert last["message"]["content"] == ""


def test_a_text_ends_with_all_ids() -> None:
    writer = AnswerFormatter(options(shape=response_shape, context="1,2"))
    first, last = lines(writer, token("A"), token(""), finished())
    assert first["response"] == "A"
    assert "message" not in first
    assert last["context"] == [1, 2, 65, 0]


def test_log_probabilities_come_with_their_token_even_where_it_shows_nothing() -> None:
    shown, hidden = TokenLogprobs(-0.5, ((65, -0.5),)), TokenLogprobs(-1.0)
    events = [token("A", logprobs=shown), token("", logprobs=hidden)]
    first, second, _ = lines(AnswerFormatter(options(logprobs=True)), *events, finished())
    alternative = {"token": "A", "logprob": -0.5, "bytes": [65]}
    assert first["logprobs"] == [alternative | {"top_logprobs": [alternative]}]
    assert second["message"]["content"] == ""
    assert second["logprobs"] == [{"token": "\0", "logprob": -1.0, "bytes": [0]}]


def test_an_error_is_the_last_line() -> None:
    writer = AnswerFormatter(options())
    *_, last = lines(writer, token("a"), Failed(0, StepFailed("no")))
    assert last == {"error": "no"}
    assert writer.failed
    assert not list(writer.write(token("b")))


def test_an_internal_error_does_not_tell_itself() -> None:
    assert set(json.loads(AnswerFormatter(options()).fail_internally())) == {"error"}


def test_a_sign_of_life_is_an_object_that_adds_nothing() -> None:
    writer = AnswerFormatter(options())
    sign = json.loads(writer.keep_alive())
    assert (sign["message"], sign["done"]) == ({"role": "assistant", "content": ""}, False)
    assert [line["message"]["content"] for line in lines(writer, *say("a"))] == ["a", ""]
