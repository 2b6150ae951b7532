"""Anthropic's API over HTTP: answers, streams and refusals, through Quart's test client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from anthropic.types import ErrorResponse
from trio.testing import wait_all_tasks_blocked

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, StepFailed
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, posting, say, token
from tests.unit.web.apis.anthropic.bodies import HI, MESSAGES, Json, user
from tests.unit.web.apis.anthropic.scripts import checked, gathered
from tests.unit.web.apps import make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys
from web.serving.app import create_app

if TYPE_CHECKING:
    from quart.wrappers import Response
    from trio.testing import MockClock

COUNT = f"{MESSAGES}/count_tokens"
VERSION = {"anthropic-version": "2023-06-01"}
STREAM = HI | {"stream": True}


async def error_in(response: Response, status: int) -> Json:
    """The error of a response, after a look at its shape."""
    assert response.status_code == status
    body: Json = await response.get_json()
    assert set(body) == {"type", "error", "request_id"}
    error: Json = body["error"]
    if error["type"] != "request_too_large":  # Anthropic documents it, and its client's models lack it
        ErrorResponse.model_validate(body, strict=True)
    return error


@pytest.mark.parametrize("query", ["", "?beta=true"])
async def test_a_message(query: str) -> None:
    engine = FakeEngine(say("Hel", "lo"))
    response = await make(engine).test_client().post(MESSAGES + query, json=HI, headers=VERSION)
    message = await response.get_json()
    request = await engine.next_request()
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["id"] == request.id == response.headers["request-id"] == response.headers["x-request-id"]
    assert message["usage"]["input_tokens"] == len(request.asked.prompts[0])


async def test_a_stream() -> None:
    engine = FakeEngine(say("Hel", "lo"))
    response = await make(engine).test_client().post(MESSAGES, json=STREAM)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    message = gathered(checked(await response.get_data(as_text=False)))
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["id"] == response.headers["request-id"]
    assert (await engine.next_request()).left.is_set()


async def test_silence_is_filled_with_pings_also_before_the_first_token(autojump_clock: MockClock) -> None:
    async def slow(request: FakeRequest) -> None:
        await trio.sleep(25)
        request.emit(*say("a"))

    app = create_app(as_engine(FakeEngine(slow)), keep_alive=10)
    async with posting(app, MESSAGES, STREAM) as connection:
        arrived = [[event["type"] for event in checked(data)] async for data in connection.writes]
    assert arrived[:2] == [["message_start", "ping"], ["ping"]]
    assert arrived[2][0] == "content_block_start"


async def test_a_stream_has_left_the_engine_when_it_ends() -> None:
    engine = FakeEngine()
    async with posting(make(engine), MESSAGES, STREAM) as connection:
        request = await engine.next_request()
        await wait_all_tasks_blocked()
        request.emit(*say("a"))
        seen = [event["type"] for event in checked(await connection.receive())]
        assert seen[-1] == "message_delta"
        assert [event["type"] for event in checked(await connection.receive())] == ["message_stop"]
        assert request.left.is_set()
    assert request.hung_up is None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tokens", [0, 1])
async def test_a_hang_up_cancels(stream: bool, tokens: int) -> None:
    engine = FakeEngine([token("a")][:tokens])
    async with posting(make(engine), MESSAGES, HI | {"stream": stream}) as connection:
        request = await engine.next_request()
        if stream and tokens:
            await connection.receive()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


async def test_a_failure_in_a_stream_is_an_event_and_cancels() -> None:
    engine = FakeEngine([token("a"), Failed(0, StepFailed("broken"))])
    response = await make(engine).test_client().post(MESSAGES, json=STREAM)
    *_, last = checked(await response.get_data(as_text=False))
    assert last["error"] == {"type": "api_error", "message": "broken"}
    assert (await engine.next_request()).cancels == [CancelReason.FAULT]


async def test_tokens_are_counted_without_the_engine() -> None:
    engine = FakeEngine()
    response = await make(engine).test_client().post(COUNT, json={"model": "any", "messages": [user("hi")]})
    assert await response.get_json() == {"input_tokens": len("<user>hi</user><assistant>")}
    assert engine.openings == 0


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("POST", MESSAGES, b"{", 400, "invalid_request_error"),
    ("POST", MESSAGES, HI | {"max_tokens": -1}, 400, "invalid_request_error"),
    ("POST", MESSAGES, HI | {"messages": [user("x" * 99)]}, 400, "invalid_request_error"),
    ("POST", COUNT, {"model": "any"}, 400, "invalid_request_error"),
    ("GET", MESSAGES, None, 405, "invalid_request_error"),
    ("GET", f"{MESSAGES}/batches", None, 404, "not_found_error"),
    ("POST", MESSAGES, b"x" * 1001, 413, "request_too_large"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "kind"), REFUSED)
async def test_what_is_refused(method: str, path: str, body: Any, status: int, kind: str) -> None:  # noqa: ANN401
    engine = FakeEngine()
    app = make(engine)
    app.config["MAX_CONTENT_LENGTH"] = 1000
    client: Any = app.test_client()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = await error_in(await client.open(path, method=method, data=data if method == "POST" else None), status)
    assert error["type"] == kind
    assert engine.openings == 0


async def test_a_full_queue_is_an_overloaded_server() -> None:
    engine = FakeEngine()
    engine.refusal = QueueFull("full", retry_after=2)
    response = await make(engine).test_client().post(MESSAGES, json=STREAM)
    assert (await error_in(response, 529))["type"] == "overloaded_error"
    assert response.headers["retry-after"] == "2"
    assert (await response.get_json())["request_id"] == response.headers["request-id"]


async def test_who_is_not_let_in() -> None:
    app = create_app(as_engine(FakeEngine(say("a"))), keys=KeyRing(read_keys(["sk-one"], None)))
    client = app.test_client()
    assert (await error_in(await client.post(MESSAGES, json=HI), 401))["type"] == "authentication_error"
    assert (await client.post(MESSAGES, json=HI, headers={"x-api-key": "sk-one"})).status_code == 200
    foreign = {"Origin": "https://evil.example", "x-api-key": "sk-one"}
    assert (await error_in(await client.post(MESSAGES, json=HI, headers=foreign), 403))["type"] == "permission_error"


async def test_answers_are_those_of_the_document() -> None:
    document, client = await document_of(), make(FakeEngine(say("Hel", "lo"))).test_client()
    check(schema_of(document, "post", MESSAGES, 200), await (await client.post(MESSAGES, json=HI)).get_json())
    item = schema_of(document, "post", MESSAGES, 200, "text/event-stream")
    streamed = await client.post(MESSAGES, json=STREAM)
    for event in checked(await streamed.get_data(as_text=False)):
        check(item, event)
    refused = await client.post(MESSAGES, json={})
    check(schema_of(document, "post", MESSAGES, 400), await refused.get_json())
    counted = await client.post(COUNT, json={"model": "any", "messages": [user("hi")]})
    check(schema_of(document, "post", COUNT, 200), await counted.get_json())


async def test_a_cancelled_answer_is_one_that_was_cut_off() -> None:
    async def cut(request: FakeRequest) -> None:
        request.emit(token("a"))
        request.cancel(CancelReason.OPERATOR)

    message = await (await make(FakeEngine(cut)).test_client().post(MESSAGES, json=HI)).get_json()
    assert (message["content"][0]["text"], message["stop_reason"]) == ("a", "max_tokens")
