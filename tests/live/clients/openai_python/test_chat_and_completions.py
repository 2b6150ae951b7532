"""The `openai` client, as everyone uses it, against a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import openai
import pytest

from tests.live.clients.openai_python.clients import client_of
from tests.live.http_client import Http1, completion, prompt

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

    from tests.live.fork_server import ForkedServer
    from tests.live.server import Server

MODEL = "any-name"
MESSAGES = cast("list[ChatCompletionMessageParam]", [{"role": "user", "content": "Write a function."}])
ENDLESS = {"ignore_eos": True}


def test_the_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert client.models.retrieve(model.id).id == model.id


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=8, temperature=0, extra_body=ENDLESS
    )
    assert answer.model == MODEL
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8


def stream_chat(client: openai.OpenAI, max_tokens: int, **fields: Any) -> tuple[str, openai.types.CompletionUsage]:  # noqa: ANN401
    text, usage = "", None
    with client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        max_tokens=max_tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=ENDLESS,
        **fields,
    ) as chunks:
        for chunk in chunks:
            usage = chunk.usage or usage
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert usage is not None
    return text, usage


def test_a_stream_says_the_same_as_a_whole_answer_and_ends_with_the_usage(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=20, temperature=0, extra_body=ENDLESS
    )
    text, usage = stream_chat(client, 20, temperature=0)
    assert text == whole.choices[0].message.content
    assert usage.completion_tokens == 20
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens is not None


@pytest.mark.parametrize("stream", [True, False])
def test_a_completion_of_two_choices(client: openai.OpenAI, stream: bool) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "def add(", "n": 2, "max_tokens": 6, "extra_body": ENDLESS}
    if stream:
        seen = [choice for chunk in client.completions.create(**asked, stream=True) for choice in chunk.choices]
    else:
        seen = client.completions.create(**asked).choices
    assert {choice.index for choice in seen} == {0, 1}
    assert [choice.finish_reason for choice in seen if choice.finish_reason] == ["length", "length"]


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "def add(", "temperature": 0, "extra_body": ENDLESS}
    text = client.completions.create(**asked, max_tokens=16).choices[0].text
    stop = text[5:8]
    choice = client.completions.create(**asked, max_tokens=16, stop=stop).choices[0]
    assert choice.text == text[: text.index(stop)]
    assert choice.finish_reason == "stop"


def test_log_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=3, temperature=0, logprobs=True, top_logprobs=4, extra_body=ENDLESS
    )
    assert answer.choices[0].logprobs is not None
    tokens = answer.choices[0].logprobs.content
    assert tokens is not None
    assert len(tokens) == 3
    for token in tokens:
        assert len(token.top_logprobs) == 4
        assert token.logprob == token.top_logprobs[0].logprob <= 0


def test_four_streams_at_a_time(client: openai.OpenAI) -> None:
    alone, _ = stream_chat(client, 40, temperature=0)
    with ThreadPoolExecutor(4) as pool:
        texts = [text for text, _ in pool.map(lambda _: stream_chat(client, 40, temperature=0), range(4))]
    assert texts == [alone] * 4


def test_a_stream_that_is_closed_midway_frees_its_slot(client: openai.OpenAI, four_slots: Server) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=4000, stream=True, extra_body=ENDLESS
    )
    with stream:
        request_id = next(iter(stream)).id
    (receipt,) = four_slots.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"


def test_errors_of_the_clients_making(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=7)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt=prompt(5000))
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_a_full_queue_says_when_to_come_again(short_queue: ForkedServer) -> None:
    crowd = completion([prompt(10)] * 17, 4000)
    with client_of(short_queue) as client, short_queue.held(), Http1(short_queue, crowd) as waiting:
        assert waiting.id in short_queue.requests()
        with pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(model=MODEL, prompt="x")
    assert refused.value.code == "queue_full"
    assert int(refused.value.response.headers["retry-after"]) >= 1
    short_queue.wait_idle()
