"""The answers of `/infill`: a stream says what the whole answer says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actors.core.generation import Event, Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import fill, finished, say, token
from web.apis.infill.answers import InfillFormatter, InfillOptions
from web.bodies.json_encoding import iter_json

TOKENIZER: Any = InfillTokenizer()
OPTIONS = InfillOptions(model="m", tokenizer=TOKENIZER, prompt_tokens=3)
LOGPROBS = TokenLogprobs(-0.5, ((65, -0.5), (66, -1.0)))


def streamed(events: Sequence[Event], options: InfillOptions = OPTIONS) -> list[dict[str, Any]]:
    writer = InfillFormatter(options)
    data = b"".join(piece for event in events for piece in writer.write(event))
    if not writer.failed:
        assert writer.finished
        data += writer.closing()
    return [json.loads(part.removeprefix(b"data: ")) for part in data.removesuffix(b"\n\n").split(b"\n\n")]


def whole(events: Sequence[Event], options: InfillOptions = OPTIONS) -> dict[str, Any]:
    builder = InfillFormatter(options, 64)
    fill(builder, events)
    made: dict[str, Any] = json.loads(b"".join(iter_json(builder.result())))
    return made


def test_a_whole_answer() -> None:
    answer = whole(say("Hel", "lo\n"))
    assert answer["content"] == "Hello\n"
    assert answer["tokens"] == []
    assert answer["stop"] is answer["has_new_line"] is True
    assert (answer["stop_type"], answer["stopping_word"], answer["truncated"]) == ("eos", "", False)
    assert (answer["tokens_predicted"], answer["tokens_evaluated"]) == (2, 3)
    assert answer["timings"]["prompt_n"] == 3
    assert whole(say("Hel", "lo"), replace(OPTIONS, tokens=True))["tokens"] == [72, 108]


def test_a_stream_adds_up_to_it() -> None:
    events: list[Event] = [token(""), *say("Hel", "", "lo")]
    *pieces, last = streamed(events)
    assert "".join(piece["content"] for piece in pieces) == "Hello"
    assert [token_id for piece in pieces for token_id in piece["tokens"]] == [0, 72, 0, 108]
    assert [piece["stop"] for piece in pieces] == [False, False]
    assert [piece["tokens_predicted"] for piece in pieces] == [2, 4]
    assert last == whole(events) | {"content": ""}


def test_tokens_that_show_nothing_come_with_the_end() -> None:
    *pieces, _ = streamed(say("a", ""))
    assert [piece["tokens"] for piece in pieces] == [[97], [0]]


def test_text_that_was_held_back_comes_with_the_end() -> None:
    events: list[Event] = [token("a"), finished(text="b\n", reason=FinishReason.LENGTH)]
    *pieces, last = streamed(events)
    assert [piece["content"] for piece in pieces] == ["a", "b\n"]
    assert (last["stop_type"], last["has_new_line"]) == ("limit", True)
    assert whole(events)["content"] == "ab\n"


def test_why_it_ended() -> None:
    word = replace(finished(), stop_string="END")
    assert whole([word])["stop_type"] == "word"
    assert whole([word])["stopping_word"] == "END"
    cancelled = replace(finished(reason=FinishReason.CANCELLED), cancelled=CancelReason.DEADLINE)
    assert whole([cancelled])["stop_type"] == "limit"
    assert whole([cancelled])["cede"] == streamed([cancelled])[-1]["cede"] == {"cancelled": "deadline"}


def test_log_probabilities() -> None:
    options = replace(OPTIONS, logprobs=True)
    events: list[Event] = [token("A", logprobs=LOGPROBS), finished()]
    (drawn,) = whole(events, options)["completion_probabilities"]
    assert (drawn["id"], drawn["token"], drawn["logprob"]) == (65, "A", -0.5)
    assert [top["id"] for top in drawn["top_logprobs"]] == [65, 66]
    assert streamed(events, options)[0]["completion_probabilities"] == [drawn]


def test_only_the_fields_that_are_wanted() -> None:
    options = replace(OPTIONS, fields=("content", "timings/prompt_n", "timings/none", "content/x", ""))
    assert whole(say("a"), options) == {"content": "a", "timings/prompt_n": 3}
    assert streamed(say("a"), options)[-1] == {"content": "", "timings/prompt_n": 3}


def test_an_error_ends_it() -> None:
    events: list[Event] = [token("a"), Failed(0, StepFailed("no"))]
    assert streamed(events)[-1]["error"]["message"] == "no"
