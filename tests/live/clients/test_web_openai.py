"""The real `openai` client against a real server on a loopback socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, QueueTimeout
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import FakeEngine, as_engine, finished, say, token
from web.serving.app import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def serving(engine: FakeEngine) -> AsyncIterator[openai.OpenAI]:
    """A server for `engine`, and a client for it, to be used in a thread."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        app: Any = create_app(as_engine(engine))
        (url,) = await nursery.start(partial(serve, app, config, shutdown_trigger=stop.wait))
        http = openai.DefaultHttpxClient(trust_env=False)  # loopback needs no proxy
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=http, max_retries=0) as client:
            yield client
        stop.set()


async def test_a_chat_stream() -> None:
    def converse(client: openai.OpenAI) -> tuple[str, list[Any]]:
        with client.chat.completions.create(
            model="any", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        ) as stream:
            return stream.response.headers["x-request-id"], list(stream)

    engine = FakeEngine(say("Hel", "lo"))
    async with serving(engine) as client:
        request_id, chunks = await trio.to_thread.run_sync(converse, client)
    request = await engine.next_request()
    assert request_id == chunks[0].id == request.id
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == 2
    assert request.hung_up is None


async def test_whole_answers() -> None:
    def converse(client: openai.OpenAI) -> tuple[Any, Any]:
        chat = client.chat.completions.create(
            model="any", messages=MESSAGES, logprobs=True, top_logprobs=1, extra_body={"top_k": 3}
        )
        return chat, client.completions.create(model="any", prompt=[1, 2], logprobs=1, max_tokens=4)

    logprobs = TokenLogprobs(-0.5, ((65, -0.5),))
    engine = FakeEngine([token("A", logprobs=logprobs), finished(reason=FinishReason.LENGTH, tokens=1)])
    async with serving(engine) as client:
        chat, text = await trio.to_thread.run_sync(converse, client)
    assert chat.choices[0].message.content == "A"
    assert chat.choices[0].logprobs.content[0].top_logprobs[0].bytes == [65]
    assert (text.choices[0].text, text.choices[0].finish_reason) == ("A", "length")
    assert text.choices[0].logprobs.top_logprobs == [{"A": -0.5}]
    assert (await engine.next_request()).asked.sampling.top_k == 3


async def test_models() -> None:
    def look(client: openai.OpenAI) -> tuple[list[str], str]:
        return [model.id for model in client.models.list()], client.models.retrieve("bytes").owned_by

    async with serving(FakeEngine()) as client:
        assert await trio.to_thread.run_sync(look, client) == (["bytes"], "cede")


async def test_errors_become_its_exceptions() -> None:
    def offend(client: openai.OpenAI) -> tuple[openai.RateLimitError, openai.BadRequestError]:
        with pytest.raises(openai.RateLimitError) as busy:
            client.completions.create(model="any", prompt="hi")
        with pytest.raises(openai.BadRequestError) as bad:
            client.completions.create(model="any", prompt="hi", suffix="no")
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")
        return busy.value, bad.value

    engine = FakeEngine()
    engine.refusal = QueueFull("full", retry_after=1)
    async with serving(engine) as client:
        busy, bad = await trio.to_thread.run_sync(offend, client)
    assert (busy.code, busy.response.headers["retry-after"]) == ("queue_full", "1")
    assert (bad.param, bad.code) == ("suffix", "unsupported_parameter")


async def test_an_error_in_a_stream_is_raised_there() -> None:
    def listen(client: openai.OpenAI) -> openai.APIError:
        with client.completions.create(model="any", prompt="hi", stream=True) as stream:
            assert next(stream).choices[0].text == "a"
            with pytest.raises(openai.APIError, match="too late") as caught:
                next(stream)
            return caught.value

    async with serving(FakeEngine([token("a"), Failed(0, QueueTimeout("too late"))])) as client:
        assert (await trio.to_thread.run_sync(listen, client)).code == "queue_timeout"


async def test_a_client_that_goes_away_ends_its_request() -> None:
    def glance(client: openai.OpenAI) -> None:
        with client.completions.create(model="any", prompt="hi", stream=True) as stream:
            assert next(stream).choices[0].text == "a"

    engine = FakeEngine([token("a")])
    async with serving(engine) as client:
        await trio.to_thread.run_sync(glance, client)
        request = await engine.next_request()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT
