"""The scores of prompts in whole answers and in streams."""

from __future__ import annotations

import json
from typing import Any

from actors.core.generation import FinishReason, Progress, PromptScored
from runtime.sampling.tokens import TokenLogprobs
from runtime.step.prompt_rows.wanted import PromptOutputs, TokenScore
from tests.fakes.engine import BOS, chat, completion, events_of, finished, token
from web.bodies.json_encoding import iter_json
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions

A = TokenScore(TokenLogprobs(-0.5, ((ord("a"), -0.5), (ord("b"), -1.0))), 1)
B = TokenScore(TokenLogprobs(-2.0, ((ord("a"), -0.25), (ord("c"), -1.5))), 5)
EVENTS: list[Progress] = [
    PromptScored(0, ((BOS, None), (ord("a"), A))),
    PromptScored(0, ((ord("b"), B),)),
    token("c", logprobs=TokenLogprobs(-0.125, ((ord("c"), -0.125),))),
    finished(0, FinishReason.LENGTH, tokens=1),
]
BODY: dict[str, Any] = {"prompt": "ab", "max_tokens": 1, "logprobs": 1, "echo": True}


def whole(parsed: Asked[ResponseOptions]) -> Any:  # noqa: ANN401
    builder = parsed.formatter(16)
    for event in EVENTS:
        builder.add(event)
    return json.loads(b"".join(iter_json(builder.result())))


def test_an_echoed_prompt_has_log_probabilities_the_first_of_them_null() -> None:
    parsed = completion(**BODY)
    assert parsed.request.outputs == PromptOutputs(alternatives=1)
    (choice,) = whole(parsed)["choices"]
    name = parsed.options.tokenizer.token_text(BOS)
    assert choice["text"] == "abc"
    assert choice["logprobs"] == {
        "tokens": [name, "a", "b", "c"],
        "token_logprobs": [None, -0.5, -2.0, -0.125],
        "top_logprobs": [None, {"a": -0.5}, {"a": -0.25, "b": -2.0}, {"c": -0.125}],
        "text_offset": [0, len(name), len(name) + 1, len(name) + 2],
    }


def test_a_stream_adds_up_to_the_whole_answer() -> None:
    parsed = completion(**BODY, stream=True)
    writer = parsed.formatter()
    closing = writer.closing()
    assert isinstance(closing, bytes)
    data = b"".join(b"".join(writer.write(event)) for event in EVENTS) + closing
    *chunks, done = events_of(data)
    assert done == "[DONE]"
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    (expected,) = whole(completion(**BODY))["choices"]
    assert "".join(choice["text"] for choice in choices) == expected["text"]
    parts = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    assert {name: [one for part in parts for one in part[name]] for name in parts[0]} == expected["logprobs"]


def test_prompt_logprobs_have_the_prompts_own_token_and_the_likeliest() -> None:
    parsed = completion(prompt="ab", max_tokens=1, prompt_logprobs=2)
    assert parsed.request.outputs == PromptOutputs(alternatives=2)
    (choice,) = whole(parsed)["choices"]
    shown = [
        None,
        {
            "97": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
            "98": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
        },
        {
            "98": {"logprob": -2.0, "rank": 5, "decoded_token": "b"},
            "97": {"logprob": -0.25, "rank": 1, "decoded_token": "a"},
            "99": {"logprob": -1.5, "rank": 2, "decoded_token": "c"},
        },
    ]
    assert choice["prompt_logprobs"] == shown
    assert choice["logprobs"] is None
    answer = whole(chat(max_tokens=1, prompt_logprobs=2))
    assert answer["prompt_logprobs"] == shown
    assert "prompt_logprobs" not in answer["choices"][0]


def test_whoever_does_not_ask_gets_none() -> None:
    for parsed in (completion(prompt="ab", echo=True), completion(prompt="ab", logprobs=2), chat(logprobs=True)):
        assert parsed.request.outputs == PromptOutputs()
