"""Ollama's endpoints over HTTP, with an engine that says what a test tells it to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.receipts import CancelReason
from runtime.errors import QueueFull
from tests.fakes.engine import FakeEngine, as_engine, posting, say, token
from tests.unit.web.apis.ollama.apps import HELLO
from tests.unit.web.apps import make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.apis.ollama.routes import REFUSED
from web.serving.app import create_app

CHAT, GENERATE = "/api/chat", "/api/generate"
HI = {"model": "bytes", "prompt": "hi"}


@pytest.mark.parametrize(("path", "body"), [(CHAT, HELLO), (GENERATE, HI)])
async def test_a_stream_is_lines_and_the_default(path: str, body: dict[str, Any]) -> None:
    engine = FakeEngine(say("Hel", "lo"))
    response = await make(engine).test_client().post(path, json=body)
    request = await engine.next_request()
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["x-request-id"] == request.id
    lines = [json.loads(line) for line in (await response.get_data(as_text=True)).splitlines()]
    assert [line["done"] for line in lines] == [False, False, True]
    schema = schema_of(await document_of(), "post", path, 200, "application/x-ndjson")
    for line in lines:
        check(schema, line)


@pytest.mark.parametrize(("path", "body"), [(CHAT, HELLO), (GENERATE, HI)])
async def test_a_whole_answer(path: str, body: dict[str, Any]) -> None:
    response = await make().test_client().post(path, json=body | {"stream": False})
    assert response.headers["content-type"] == "application/json"
    answer = await response.get_json()
    assert "Hello" in (answer.get("response"), answer.get("message", {}).get("content"))
    check(schema_of(await document_of(), "post", path, 200), answer)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_without_a_prompt_is_answered_without_the_engine(stream: bool) -> None:
    engine = FakeEngine()
    response = await make(engine).test_client().post(GENERATE, json={"model": "bytes", "stream": stream})
    assert response.headers["content-type"] == ("application/x-ndjson" if stream else "application/json")
    assert json.loads(await response.get_data(as_text=True))["done_reason"] == "load"
    assert engine.openings == 0


async def test_a_body_without_a_prompt_is_refused_with_a_header_that_means_nothing() -> None:
    said = {"x-cede-on-disconnect": "stay"}
    response = await make().test_client().post(GENERATE, json={"model": "bytes"}, headers=said)
    assert response.status_code == 400
    assert "x-cede-on-disconnect" in (await response.get_json())["error"]


async def test_a_hang_up_cancels_exactly_this_request() -> None:
    engine = FakeEngine([token("a")])
    async with posting(make(engine), CHAT, HELLO) as connection:
        request = await engine.next_request()
        assert json.loads(await connection.receive())["message"]["content"] == "a"
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


async def test_a_silent_stream_says_that_it_is_alive(autojump_clock: object) -> None:
    engine = FakeEngine([token("a")])
    app = create_app(as_engine(engine), keep_alive=5.0)
    async with posting(app, CHAT, HELLO) as connection:
        request = await engine.next_request()
        first, sign = json.loads(await connection.receive()), json.loads(await connection.receive())
        assert (first["message"]["content"], sign["message"]["content"], sign["done"]) == ("a", "", False)
        request.emit(*say("b"))
        await connection.receive_all()


async def test_errors_are_a_sentence() -> None:
    engine = FakeEngine()
    client = make(engine).test_client()
    document = await document_of()
    response = await client.post(CHAT, json=HELLO | {"template": "{{ .Prompt }}"})
    assert response.status_code == 400
    error = await response.get_json()
    assert error == {"error": "'template' is not supported by this server."}
    check(schema_of(document, "post", CHAT, 400), error)
    engine.refusal = QueueFull("full", retry_after=1.0)
    response = await client.post(CHAT, json=HELLO)
    assert (response.status_code, await response.get_json()) == (429, {"error": "full"})
    response = await client.get("/api/nothing")
    assert response.status_code == 404
    assert set(await response.get_json()) == {"error"}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_a_server_of_one_model_cannot_do_is_refused(name: str) -> None:
    client = make().test_client()
    response = await client.open(f"/api/{name}", method="DELETE" if name == "delete" else "POST", json={"model": "x"})
    assert response.status_code == 400
    assert await response.get_json() == {"error": REFUSED[name]}


async def test_what_is_served() -> None:
    client, document = make().test_client(), await document_of()
    for path in ("/api/tags", "/api/ps", "/api/version"):
        response = await client.get(path)
        check(schema_of(document, "get", path, 200), await response.get_json())
    for name in ({"model": "bytes"}, {"name": "bytes:latest"}):
        response = await client.post("/api/show", json=name)
        check(schema_of(document, "post", "/api/show", 200), await response.get_json())
    response = await client.post("/api/show", json={"model": "other"})
    assert (response.status_code, await response.get_json()) == (404, {"error": "model 'other' not found"})
