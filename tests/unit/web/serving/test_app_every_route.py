"""Rules for every route of every API: other pages, rebound names and clients without a key stay out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine, as_engine, posting
from tests.fakes.operations import OPERATIONS
from tests.rows import every_row
from web.http.asgi import ScopedApp
from web.http.browser_policy import BrowserPolicy
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys
from web.serving.app import create_app

LONG = "x" * 60_000
SHORT = 5000
"""Bytes of an error object."""
GUARDED: Any = create_app(
    as_engine(FakeEngine()),
    keys=KeyRing(read_keys(["sk-1"], None)),
    browser_policy=BrowserPolicy.parse(["http://localhost:3000"], []),
)
CLOSED = {(each.method.upper(), re.sub(r"\{\w+\}", "x", each.path)): not each.open for each in OPERATIONS}
ROUTES = sorted(CLOSED)


@pytest.fixture
def app() -> ScopedApp:
    """One for all routes."""
    return create_app(as_engine(FakeEngine()))


def test_there_are_routes() -> None:
    assert {("POST", "/v1/chat/completions"), ("GET", "/health"), ("DELETE", "/v1/requests/x")} <= set(ROUTES)


@every_row("method, path", ROUTES)
async def test_a_page_of_another_origin_is_refused(app: ScopedApp, method: str, path: str) -> None:
    client: Any = app.test_client()
    answer = await client.open(path, method=method, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@every_row("path", sorted({path for _, path in ROUTES}))
async def test_a_rebound_name_is_refused(app: ScopedApp, path: str) -> None:
    async with posting(app, path, b"{}", headers={"host": "evil.example"}) as asked:
        await asked.receive_all()
    assert asked.status == 403


@every_row("method, path", [route for route in ROUTES if CLOSED[route]])
async def test_a_client_without_a_key_is_refused(method: str, path: str) -> None:
    assert (await GUARDED.test_client().open(path, method=method)).status_code == 401


@every_row("method, path", ROUTES)
async def test_a_page_that_is_named_may_send_what_its_sdk_sends(method: str, path: str) -> None:
    sent = "authorization,x-api-key,anthropic-version,content-type,x-stainless-retry-count"
    asks = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": sent}
    answer = await GUARDED.test_client().options(path, headers=asks | {"Origin": "http://localhost:3000"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == sent
    assert method in answer.headers["access-control-allow-methods"]
    assert "x-ratelimit-remaining-tokens" in answer.headers["access-control-expose-headers"]


@every_row(
    "method, path", [*(route for route in ROUTES if route[0] == "POST" or "/x" in route[1]), ("GET", "/unknown/x")]
)
async def test_an_error_quotes_no_long_name_whole(app: ScopedApp, method: str, path: str) -> None:
    """A name in the path, and one in the body; those that look into a log read them, too."""
    long_path = re.sub(r"/x(?=/|$)", f"/{LONG}", path)
    body = {name: LONG for name in ("model", "name", "prompt", "previous_response_id", "conversation", LONG)}
    client: Any = app.test_client()
    answer = await client.open(long_path, method=method, json=body)
    assert answer.status_code < 400 or len(await answer.get_data()) < SHORT
