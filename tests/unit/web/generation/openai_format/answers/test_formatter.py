"""Server-sent events: OpenAI's chunks to the letter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.core.generation import Event, Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import QueueTimeout
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import (
    BOS,
    TIMINGS,
    chat,
    completion,
    events_of,
    finished,
    say,
    token,
)
from tests.unit.web.generation.openai_format.answers.streams import choices, chunks_of, cut_short, written
from web.generation.openai_format.answers.usage import timings


def test_a_chat_stream() -> None:
    parsed = chat(model="any", stream=True)
    *chunks, done = written(parsed, *say("Hel", "lo"))
    assert done == "[DONE]"
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert (chunk["id"], chunk["model"], chunk["created"]) == (parsed.request.id, "any", parsed.options.created)
        assert "usage" not in chunk
    assert choices(chunks) == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "Hel"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "lo"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"},
    ]


def test_a_text_stream() -> None:
    *chunks, done = written(completion(stream=True), *say("a", "b"))
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert choices(chunks) == [
        {"index": 0, "text": "a", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "b", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"},
    ]


def test_text_held_back_comes_before_the_finish() -> None:
    *chunks, _ = written(completion(stream=True), token(""), finished(text="EN", reason=FinishReason.LENGTH))
    assert [(c["text"], c["finish_reason"]) for c in choices(chunks)] == [("EN", None), ("", "length")]


@pytest.mark.parametrize("text", ['"\\', "\n\r\0", "\u2028é漢🙂", "data: x\n\n", "\\u0000"])
def test_any_text_survives(text: str) -> None:
    parsed = chat(model=f"m{text}", stream=True)
    chunks = written(parsed, token(text), finished())[1:2]
    assert choices(chunks)[0]["delta"]["content"] == text
    assert chunks[0]["model"] == f"m{text}"


def test_usage_comes_last_with_no_choices() -> None:
    parsed = chat(stream=True, stream_options={"include_usage": True})
    *chunks, last, done = written(parsed, token("a"), finished(tokens=1, cached=5))
    assert done == "[DONE]"
    assert all(chunk["usage"] is None for chunk in chunks)
    prompt = len(parsed.request.prompts[0])
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 1,
        "total_tokens": prompt + 1,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_the_last_chunk_has_llama_servers_timings() -> None:
    *chunks, _ = written(chat(stream=True), *say("a"))
    assert chunks[-1]["timings"] == {
        "cache_n": 2,
        "prompt_n": 3,
        "prompt_ms": 6.0,
        "prompt_per_token_ms": 2.0,
        "prompt_per_second": 500.0,
        "predicted_n": 4,
        "predicted_ms": 10.0,
        "predicted_per_token_ms": 2.5,
        "predicted_per_second": 400.0,
    }
    assert not any("timings" in chunk for chunk in chunks[:-1])


def test_timings_count_drafts_where_some_were_made() -> None:
    """As llama-server: absent otherwise."""
    drafted = replace(TIMINGS, draft_n=8, draft_n_accepted=5)
    assert timings([TIMINGS, drafted, drafted]).items() >= {"draft_n": 16, "draft_n_accepted": 10}.items()
    assert timings([replace(TIMINGS, draft_n=3)])["draft_n_accepted"] == 0
    assert not any(name.startswith("draft") for name in timings([TIMINGS]))


def test_choices_interleave_and_each_opens_with_its_role() -> None:
    parsed = chat(stream=True, n=2, stream_options={"include_usage": True})
    events = [token("a", 1), token("b", 0), token("c", 1), finished(1, tokens=2), finished(0, tokens=1)]
    *chunks, usage, done = written(parsed, *events)
    seen = [(c["index"], c["delta"].get("content"), c["finish_reason"]) for c in choices(chunks)]
    assert seen == [
        (1, "", None),
        (1, "a", None),
        (0, "", None),
        (0, "b", None),
        (1, "c", None),
        (1, None, "stop"),
        (0, None, "stop"),
    ]
    assert usage["usage"]["prompt_tokens"] == len(parsed.request.prompts[0])  # once, not for each choice
    assert usage["usage"]["completion_tokens"] == 3
    assert done == "[DONE]"


def test_chat_logprobs() -> None:
    logprobs = TokenLogprobs(-0.5, ((65, -0.5), (0xC3, -1.5)))
    parsed = chat(stream=True, logprobs=True, top_logprobs=2)
    chunks = written(parsed, token("A", logprobs=logprobs), token("", logprobs=TokenLogprobs(-2.0)), finished())
    first, second = choices(chunks)[1:3]
    assert first["logprobs"] == {
        "content": [
            {
                "token": "A",
                "logprob": -0.5,
                "bytes": [65],
                "top_logprobs": [
                    {"token": "A", "logprob": -0.5, "bytes": [65]},
                    {"token": "\\xc3", "logprob": -1.5, "bytes": [0xC3]},
                ],
            }
        ],
        "refusal": None,
    }
    assert second["delta"] == {"content": ""}  # nothing to show yet, but a token to account for
    assert second["logprobs"]["content"][0]["logprob"] == -2.0


def test_completion_logprobs() -> None:
    parsed = completion(stream=True, logprobs=1)
    events = [token(t, logprobs=TokenLogprobs(-0.5, ((66, -0.1),))) for t in "AC"]
    shown = [choice["logprobs"] for choice in choices(written(parsed, *events, finished()))]
    assert shown == [
        {
            "tokens": ["A"],
            "token_logprobs": [-0.5],
            "top_logprobs": [{"B": -0.1, "A": -0.5}],
            "text_offset": [0],
        },
        {
            "tokens": ["C"],
            "token_logprobs": [-0.5],
            "top_logprobs": [{"B": -0.1, "C": -0.5}],
            "text_offset": [1],
        },
        None,
    ]


def test_token_ids_in_a_chat_stream() -> None:
    parsed = chat(stream=True, return_token_ids=True)
    first, second, *_ = written(parsed, token("a"), finished())
    assert first["prompt_token_ids"] == list(parsed.request.prompts[0])
    assert second["choices"][0]["token_ids"] == [97]
    assert "prompt_token_ids" not in second


def test_token_ids_and_echo_in_a_text_stream() -> None:
    parsed = completion(prompt="hi", stream=True, return_token_ids=True, echo=True)
    first, second, _ = choices(written(parsed, token("a"), finished()))
    assert (first["text"], first["prompt_token_ids"]) == ("hi", [BOS, *b"hi"])
    assert (second["text"], second["token_ids"]) == ("a", [97])


def test_a_cancelled_stream_ends_properly() -> None:
    cut = cut_short(CancelReason.SHUTDOWN)
    *chunks, done = written(chat(stream=True), token("a"), cut)
    assert choices(chunks)[-1]["cede"] == {"cancelled": "shutdown"}
    assert done == "[DONE]"


def test_an_error_ends_the_stream_without_done() -> None:
    writer = chat(stream=True, n=2).formatter()
    events: list[Event] = [token("a"), Failed(0, QueueTimeout("no slot came free")), token("b", 1)]
    *_, last = events_of(chunks_of(writer, events))
    error = {"message": "no slot came free", "type": "unavailable_error", "param": None, "code": "queue_timeout"}
    assert last == {"error": error}
    assert writer.failed
    assert not writer.finished
