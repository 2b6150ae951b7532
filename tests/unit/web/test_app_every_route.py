"""What holds for every route of every API: other pages, rebound names and clients without a key stay out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine, as_engine, posting
from web.access.api_keys import KeyRing
from web.access.key_file import read_keys
from web.app import OPEN, create_app
from web.http.browser_policy import BrowserPolicy

LONG = "x" * 60_000
SHORT = 5000
"""Bytes of an error object."""
KEYS = KeyRing(read_keys(["sk-1"], None))
ROUTES = sorted(
    (method, re.sub(r"<[^>]*>", "x", rule.rule))
    for rule in create_app(as_engine(FakeEngine()), keys=KEYS).url_map.iter_rules()
    for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
)


def test_there_are_routes() -> None:
    assert {("POST", "/v1/chat/completions"), ("GET", "/health"), ("DELETE", "/v1/requests/x")} <= set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_page_of_another_origin_is_refused(method: str, path: str) -> None:
    client: Any = create_app(as_engine(FakeEngine())).test_client()
    answer = await client.open(path, method=method, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", sorted({path for _, path in ROUTES}))
async def test_a_rebound_name_is_refused(path: str) -> None:
    app = create_app(as_engine(FakeEngine()))
    async with posting(app, path, b"{}", headers={"host": "evil.example"}) as asked:
        await asked.receive_all()
    assert asked.status == 403


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if not OPEN.fullmatch(route[1])])
async def test_a_client_without_a_key_is_refused(method: str, path: str) -> None:
    client: Any = create_app(as_engine(FakeEngine()), keys=KEYS).test_client()
    assert (await client.open(path, method=method)).status_code == 401


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_page_that_is_named_may_send_what_its_sdk_sends(method: str, path: str) -> None:
    policy = BrowserPolicy.parse(["http://localhost:3000"], [])
    client: Any = create_app(as_engine(FakeEngine()), keys=KEYS, browser_policy=policy).test_client()
    sent = "authorization,x-api-key,anthropic-version,content-type,x-stainless-retry-count"
    asks = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": sent}
    answer = await client.options(path, headers=asks | {"Origin": "http://localhost:3000"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == sent
    assert method in answer.headers["access-control-allow-methods"]
    assert "x-ratelimit-remaining-tokens" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("method", "path"), [*(route for route in ROUTES if route[0] == "POST" or "/x" in route[1]), ("GET", "/unknown/x")]
)
async def test_an_error_quotes_no_long_name_whole(method: str, path: str) -> None:
    """A name in the path, and one in the body; those that look into a log read them, too."""
    client: Any = create_app(as_engine(FakeEngine())).test_client()
    long_path = re.sub(r"/x(?=/|$)", f"/{LONG}", path)
    body = {name: LONG for name in ("model", "name", "prompt", "previous_response_id", "conversation", LONG)}
    answer = await client.open(long_path, method=method, json=body)
    assert answer.status_code < 400 or len(await answer.get_data()) < SHORT
