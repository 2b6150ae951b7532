"""The limits of keys over HTTP: on every route, before a body is read, and until the response is sent or made."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from runtime.errors import RateLimited
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import FakeEngine, as_engine, posting, say, token
from tests.fakes.operations import OPERATIONS
from tests.unit.web.apps import CHAT, HI, error_in
from tests.unit.web.process.access.keys import Clock, key_of
from web.apis.responses.stored.state import open_state
from web.openapi.operations import Operation
from web.process.access.api_keys import KeyRing
from web.process.access.usage import KeyUsage, most_tokens
from web.process.options import StateOptions
from web.serving.app import create_app

BEARER = {"authorization": "Bearer sk-1"}


async def test_the_refusal_comes_before_the_body_and_a_place_is_free_when_the_client_has_gone() -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1, queue_share=0.5)]))
    async with posting(app, CHAT, HI, headers=BEARER) as first:
        assert (await engine.next_request()).asked.queue_share == 0.5
        refused = await app.test_client().post(CHAT, json=HI | {"max_tokens": -7}, headers=BEARER)
        assert (await error_in(refused, 429))["code"] == "rate_limit_exceeded"
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        listed = await app.test_client().get("/v1/requests", headers=BEARER)
        assert listed.status_code == 200, "looking takes no place"
        first.disconnect()
    for wrong in (HI | {"max_tokens": -7}, {}):
        assert (await app.test_client().post(CHAT, json=wrong, headers=BEARER)).status_code == 400
    engine.refusal = RateLimited("no")
    assert (await app.test_client().post(CHAT, json=HI, headers=BEARER)).status_code == 429
    engine.refusal = None
    async with posting(app, CHAT, HI, headers=BEARER) as last:
        await engine.next_request()
        last.disconnect()


@pytest.mark.parametrize("path", [operation.path for operation in OPERATIONS if operation.body is not None])
async def test_each_route_with_a_body_takes_a_place(path: str) -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1)]))
    async with posting(app, CHAT, HI, headers=BEARER) as first:
        await engine.next_request()
        assert (await app.test_client().post(path, json={}, headers=BEARER)).status_code == 429
        first.disconnect()
    assert (await app.test_client().post(path, json={"messages": 7}, headers=BEARER)).status_code != 429


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, HI),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", HI | {"model": "any", "max_tokens": 3}),
        ("/api/chat", HI),
        ("/api/generate", {"prompt": "hi"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_api_asks_for_its_key_and_within_its_share(path: str, body: dict[str, Any], stream: bool) -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keys=KeyRing([key_of(queue_share=0.5)]))
    async with posting(app, path, body | {"stream": stream}, headers=BEARER) as client:
        asked = (await engine.next_request()).asked
        assert (asked.owner, asked.queue_share) == ("alice", 0.5)
        client.disconnect()


async def test_the_headers_are_openais_and_come_with_each_answer() -> None:
    keys = KeyRing([key_of(requests=3, tokens_per_minute=600)])
    app = create_app(as_engine(FakeEngine(say("a"))), keys=keys, usage=KeyUsage(Clock()))
    response = await app.test_client().post(CHAT, json=HI, headers=BEARER)
    told = {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit-")}
    assert told == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "1.000s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "600",
        "x-ratelimit-reset-tokens": "0.000s",
    }


# --- on every route ---------------------------------------------------------------------------------------------------

GENERATING = [operation for operation in OPERATIONS if 504 in operation.errors and operation.body]


@pytest.mark.parametrize("operation", GENERATING, ids=lambda operation: operation.path)
async def test_every_route_that_generates_reserves_its_tokens(operation: Operation) -> None:
    usage, key = KeyUsage(Clock()), key_of(tokens_per_minute=10_000)
    engine = FakeEngine()
    engine.model.tokenizer = InfillTokenizer()
    app = create_app(as_engine(engine), keys=KeyRing([key]), usage=usage)
    async with posting(app, operation.path, dict(operation.example or {}), headers=BEARER) as asking:
        asked = (await engine.next_request()).asked
        left = int(usage.headers(key)["x-ratelimit-remaining-tokens"])
        assert left == 10_000 - most_tokens(asked, FakeEngine().model.context_length)
        with usage.reserve(key, "another", left):
            refused = await app.test_client().post(operation.path, json=operation.example, headers=BEARER)
            assert refused.status_code == 429
        asking.disconnect()
    assert usage.headers(key)["x-ratelimit-remaining-tokens"] == "10000"


async def test_a_response_in_the_background_keeps_its_place_until_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    engine = FakeEngine([token("a")])
    async with open_state(as_engine(engine), StateOptions()) as state:
        app = create_app(as_engine(engine), keys=KeyRing([key_of(requests=1, queue_share=0.5)]), state=state)
        client, body = app.test_client(), {"input": "hi", "background": True}
        begun = await client.post("/v1/responses", json=body, headers=BEARER)
        assert (begun.status_code, (await engine.next_request()).asked.queue_share) == (200, 0.5)
        assert (await client.post("/v1/responses", json=body, headers=BEARER)).status_code == 429
        path = f"/v1/responses/{(await begun.get_json())['id']}/cancel"
        assert (await client.post(path, headers=BEARER)).status_code == 200
        assert (await client.post("/v1/responses", json=body, headers=BEARER)).status_code == 200


async def test_a_response_in_the_background_keeps_its_tokens_until_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    usage, key = KeyUsage(trio.current_time), key_of(tokens_per_minute=100)
    engine = FakeEngine([token("a")])
    async with open_state(as_engine(engine), StateOptions()) as state:
        client = create_app(as_engine(engine), keys=KeyRing([key]), usage=usage, state=state).test_client()
        body = {"input": "x", "background": True, "max_output_tokens": 4000}
        begun = await (await client.post("/v1/responses", json=body, headers=BEARER)).get_json()
        assert usage.headers(key)["x-ratelimit-remaining-tokens"] == str(100 - engine.model.context_length)
        assert (await client.post("/v1/responses", json=body, headers=BEARER)).status_code == 429
        await client.post(f"/v1/responses/{begun['id']}/cancel", headers=BEARER)
        with usage.reserve(key, "all", 100):
            pass
