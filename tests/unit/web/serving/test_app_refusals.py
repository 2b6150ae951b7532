"""Refusals and failures, and with which error object, through Quart's test client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from quart.testing import WebsocketResponseError
from trio.testing import MockClock

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.errors import (
    CedeError,
    DeadlineExceeded,
    DeviceLost,
    QueueFull,
    QueueTimeout,
    RequestError,
    ShuttingDown,
    StepFailed,
)
from tests.fakes.engine import FakeEngine, FakeRequest, finished, posting, token
from tests.unit.web.apps import CHAT, HI, TEXT, error_in, make

ERRORS: list[tuple[CedeError, int, str, str | None]] = [
    (RequestError("no", param="prompt", code="odd"), 400, "invalid_request_error", "odd"),
    (QueueFull("full", retry_after=2), 429, "rate_limit_error", "queue_full"),
    (QueueTimeout("late"), 503, "unavailable_error", "queue_timeout"),
    (ShuttingDown("bye"), 503, "unavailable_error", "shutting_down"),
    (DeviceLost("gone"), 503, "unavailable_error", "device_lost"),
    (DeadlineExceeded("late"), 504, "timeout_error", "deadline_exceeded"),
    (StepFailed("broken"), 500, "server_error", "step_failed"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), ERRORS)
@pytest.mark.parametrize("admission", [True, False])
async def test_the_engines_errors_keep_their_status(
    error: CedeError, status: int, kind: str, code: str | None, admission: bool
) -> None:
    engine = FakeEngine([Failed(0, error)])
    engine.refusal = error if admission else None
    response = await make(engine).test_client().post(CHAT, json=HI)
    shown = await error_in(response, status)
    assert (shown["message"], shown["type"], shown["code"]) == (str(error), kind, code)
    assert response.headers.get("retry-after") == (f"{error.retry_after:g}" if error.retry_after else None)
    assert response.headers["x-request-id"].startswith("chatcmpl-")


async def test_a_failure_cancels_the_siblings() -> None:
    engine = FakeEngine([token("a", 1), Failed(0, StepFailed("broken"))])
    assert (await make(engine).test_client().post(CHAT, json=HI | {"n": 2})).status_code == 500
    assert (await engine.next_request()).cancels == [CancelReason.FAULT]


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "allow"),
    [
        ("GET", "/v1", 404, "unknown_url", None),
        ("GET", "/v1/chat", 404, "unknown_url", None),
        ("POST", "/v1/chat/completions//", 404, "unknown_url", None),
        ("GET", TEXT, 405, "method_not_allowed", {"OPTIONS", "POST"}),
        ("HEAD", TEXT, 405, "method_not_allowed", {"OPTIONS", "POST"}),
        ("POST", "/health", 405, "method_not_allowed", {"GET", "HEAD", "OPTIONS"}),
        ("PUT", "/v1/requests/x", 405, "method_not_allowed", {"DELETE", "OPTIONS"}),
        ("DELETE", "/v1/requests/x", 404, "request_not_found", None),
        ("GET", "/v1/models/other", 404, "model_not_found", None),
    ],
)
async def test_wrong_urls_and_methods(method: str, path: str, status: int, code: str, allow: set[str] | None) -> None:
    client: Any = make().test_client()
    response = await client.open(path, method=method)
    assert (await error_in(response, status))["code"] == code
    assert response.headers.get("allow") == (", ".join(sorted(allow)) if allow else None)


async def test_a_slash_at_the_end_of_a_path_changes_nothing() -> None:
    client = make(FakeEngine([token("a"), finished()])).test_client()
    assert (await client.get("/health/")).status_code == 200
    assert (await client.post(f"{CHAT}/", json=HI)).status_code == 200
    assert (await client.get("/")).status_code == 200
    error = await error_in(await client.get("/v1/models/other/"), 404)
    assert error["code"] == "model_not_found"


@pytest.mark.parametrize(("path", "hinted"), [("/chat/completions", True), ("/v2", True), ("/v1/rankings", False)])
async def test_whoever_forgot_v1_is_told(path: str, hinted: bool) -> None:
    error = await error_in(await make().test_client().post(path), 404)
    assert error["message"].endswith("under /v1.") == hinted


async def test_a_target_that_is_no_url_is_an_unknown_one() -> None:
    async with posting(make(), "http://[x/v1", {}) as connection:
        error = json.loads(await connection.receive_all())["error"]
    assert (connection.status, error["code"]) == (404, "unknown_url")
    assert error["message"] == "Unknown request URL: POST /http://[x/v1.  The API is under /v1."


async def test_a_websocket_is_refused_by_its_url() -> None:
    async with make().test_client().websocket(TEXT) as socket:
        with pytest.raises(WebsocketResponseError) as refused:
            await socket.receive()
    error = await error_in(refused.value.response, 405)
    assert error["message"] == f"This URL does not serve that method: GET {TEXT}."


@pytest.mark.parametrize(
    ("raw", "param", "code"),
    [
        (b"{", None, "invalid_json"),
        (b"", None, "invalid_json"),
        (b"[]", None, None),
        (b'{"messages": []}', "messages", None),
        (b'{"messages": [{"role": "user", "content": "hi"}], "n": 99}', "n", None),
        (json.dumps(HI | {"tools": [{}]}).encode(), "tools.0", None),
        (json.dumps(HI | {"audio": {}}).encode(), "audio", "unsupported_parameter"),
        (
            json.dumps({"messages": [{"role": "user", "content": "x" * 99}]}).encode(),
            "messages",
            "context_length_exceeded",
        ),
    ],
)
async def test_bad_bodies_take_no_slot(raw: bytes, param: str | None, code: str | None) -> None:
    engine = FakeEngine()
    response = await make(engine).test_client().post(CHAT, data=raw)
    error = await error_in(response, 400)
    assert (error["param"], error["code"], error["type"]) == (param, code, "invalid_request_error")
    assert engine.openings == 0


async def test_a_body_that_is_too_large() -> None:
    app = make()
    app.config["MAX_CONTENT_LENGTH"] = 1000
    response = await app.test_client().post(TEXT, data=b"x" * 1001)
    assert (await error_in(response, 413))["code"] == "request_too_large"
    async with posting(app, TEXT, b"x" * 1001) as connection:  # no content-length: noticed as it comes
        assert b"request_too_large" in await connection.receive_all()
        assert connection.status == 413


async def test_a_body_that_does_not_come(autojump_clock: MockClock) -> None:
    async with posting(make(), TEXT, b'{"prompt": ', more=True) as connection:
        body = await connection.receive_all()
    assert json.loads(body)["error"]["code"] == "request_timeout"
    assert connection.status == 408


async def test_a_bug_is_a_500_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    engine.refusal = ZeroDivisionError("secret detail")
    error = await error_in(await make(engine).test_client().post(CHAT, json=HI), 500)
    assert (error["type"], error["code"]) == ("server_error", "internal_error")
    assert "secret" not in error["message"]
    assert "secret detail" in caplog.text
    assert {record.name for record in caplog.records} == {"cede.web"}


async def test_a_crash_beside_the_answer_is_a_500_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def crash(request: FakeRequest) -> None:
        raise ZeroDivisionError("an actor's bug")

    await error_in(await make(FakeEngine(crash)).test_client().post(CHAT, json=HI), 500)
    assert "an actor's bug" in caplog.text
