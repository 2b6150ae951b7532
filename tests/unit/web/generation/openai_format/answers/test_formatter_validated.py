"""All that clients are sent validates against the models of OpenAI's own client, strictly."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from actors.core.generation import Event, Token
from actors.core.receipts import CancelReason
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import completion, fill, say, token
from tests.unit.web.generation.openai_format.answers.streams import cut_short, written
from tests.unit.web.generation.openai_format.chat.scripts import SHELL, WEATHER, scripted
from web.bodies.json_encoding import iter_json
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions

TWO = [*say("a", "b"), *say("c", index=1)]
LOGPROBS = TokenLogprobs(-0.5, ((98, -0.5), (99, -1.5)))
PROBABLE = [replace(event, logprobs=LOGPROBS) if isinstance(event, Token) else event for event in say("a", "b")]
USAGE = {"include_usage": True}

CHATS: dict[str, tuple[dict[str, Any], Sequence[Event]]] = {
    "text": ({}, say("a", "b")),
    "nothing": ({"max_tokens": 0}, say()),
    "two choices": ({"n": 2}, TWO),
    "calls": ({"tools": [WEATHER]}, say("call:weather", "args:{}", "end", "call:weather", "args:{}", "end")),
    "a call of the older kind": ({"functions": [WEATHER["function"]]}, say("call:weather", "args:{}", "end")),
    "thoughts": ({}, say("think:hm", "yes")),
    "log-probabilities": ({"logprobs": True, "top_logprobs": 2}, PROBABLE),
    "token ids": ({"return_token_ids": True}, say("a")),
    "a cancelled answer": ({}, [token("a"), cut_short(CancelReason.OPERATOR)]),
}
TEXTS: dict[str, tuple[dict[str, Any], Sequence[Event]]] = {
    "text": ({}, say("a", "b")),
    "nothing": ({"max_tokens": 0}, say()),
    "two choices": ({"n": 2}, TWO),
    "echo": ({"echo": True}, say("a")),
    "log-probabilities": ({"logprobs": 2}, PROBABLE),
    "a cancelled answer": ({}, [token("a"), cut_short(CancelReason.DEADLINE)]),
}


def whole(parsed: Asked[ResponseOptions], events: Sequence[Event]) -> bytes:
    """Return the JSON of the response that these events become."""
    collector = parsed.formatter(1 << 14)
    fill(collector, events)
    return b"".join(iter_json(collector.result()))


@pytest.mark.parametrize("name", CHATS)
def test_whole_chats(name: str) -> None:
    fields, events = CHATS[name]
    answer = ChatCompletion.model_validate_json(whole(scripted(**fields), events), strict=True)
    assert answer.usage is not None
    assert all(choice.finish_reason for choice in answer.choices)


def test_a_custom_tools_call() -> None:
    answer = ChatCompletion.model_validate_json(
        whole(scripted(tools=[SHELL]), say("call:shell", "args:ls", "end")), strict=True
    )
    assert answer.choices[0].message.tool_calls is not None
    assert [call.type for call in answer.choices[0].message.tool_calls] == ["custom"]


@pytest.mark.parametrize("options", [None, USAGE, USAGE | {"continuous_usage_stats": True}])
@pytest.mark.parametrize("name", CHATS)
def test_streamed_chats(name: str, options: dict[str, bool] | None) -> None:
    fields, events = CHATS[name]
    parsed = scripted(**fields, stream=True, stream_options=options)
    *chunks, done = written(parsed, *events)
    assert done == "[DONE]"
    alive = json.loads(parsed.formatter().keep_alive().removeprefix(b"data: "))
    read = [ChatCompletionChunk.model_validate(chunk, strict=True) for chunk in [alive, *chunks]]
    assert {chunk.id for chunk in read} == {parsed.request.id}
    assert any(choice.finish_reason for chunk in read for choice in chunk.choices)


@pytest.mark.parametrize("name", TEXTS)
def test_whole_completions(name: str) -> None:
    fields, events = TEXTS[name]
    answer = Completion.model_validate_json(whole(completion(**fields), events), strict=True)
    assert [choice.index for choice in answer.choices] == list(range(len(answer.choices)))
    assert answer.choices
    assert answer.usage is not None


@pytest.mark.parametrize("name", TEXTS)
def test_streamed_completions(name: str) -> None:
    """OpenAI's client has one model for chunks and whole answers; its API sends null for the reason until the last."""
    fields, events = TEXTS[name]
    parsed = completion(**fields, stream=True, stream_options=USAGE)
    *chunks, _ = written(parsed, *events)
    alive = json.loads(parsed.formatter().keep_alive().removeprefix(b"data: "))
    unfinished = 0
    for chunk in [alive, *chunks]:
        for choice in chunk["choices"]:
            unfinished += choice["finish_reason"] is None
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        Completion.model_validate(chunk, strict=True)
    assert unfinished >= 1


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: whole(scripted(), say("a")), b'"finish_reason":"stop"'),
        (lambda: whole(scripted(), say("a")), b'"prompt_tokens"'),
    ],
)
def test_the_models_do_notice(make: Callable[[], bytes], wrong: bytes) -> None:
    spoilt = make().replace(wrong, b'"finish_reason":"cancelled"' if b"stop" in wrong else b'"tokens"')
    with pytest.raises(ValueError, match="validation error"):
        ChatCompletion.model_validate_json(spoilt, strict=True)
