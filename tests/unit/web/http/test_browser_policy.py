"""Policy for browsers: which pages and names are served, which are refused unread, and what browsers are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from werkzeug.datastructures import Headers

from tests.fakes.engine import FakeEngine, as_engine, posting, say
from tests.rows import every_row
from web.http.browser_policy import BrowserPolicy, BrowserPolicyError, RequestRefused, host_name, preflight_headers
from web.process.access.api_keys import KeyRing, plain_key
from web.serving.app import create_app

LOOPBACK, LAN = "127.0.0.1", "192.168.1.5"
CHAT = "/v1/chat/completions"


def verdict(
    headers: Mapping[str, str], *, method: str = "GET", local: str = LOOPBACK, allowed: BrowserPolicy | None = None
) -> int:
    """The status of a refusal, or 200."""
    try:
        (allowed or BrowserPolicy()).check(method, local, Headers(dict(headers)))
    except RequestRefused as refused:
        return refused.status
    return 200


@every_row(
    "host, name",
    [
        ("localhost", "localhost"),
        ("LocalHost:8000", "localhost"),
        ("localhost.", "localhost"),
        ("a.example.:8000", "a.example"),
        ("[::1]:8000", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("", ""),
    ],
)
def test_the_name_in_a_host(host: str, name: str) -> None:
    assert host_name(host) == name


UNAMBIGUOUS = ["localhost:8000", "app.localhost", "127.0.0.1:8000", "[::1]:8000", "10.0.0.7", "LOCALHOST."]
AMBIGUOUS = ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "user@localhost", "evil.example."]


@every_row("host", [*UNAMBIGUOUS, "host.docker.internal:8000", ""])
def test_names_that_nobody_else_can_give_away_are_served(host: str) -> None:
    assert verdict({"Host": host}) == 200


@every_row("host", AMBIGUOUS)
@every_row("local", [LOOPBACK, "::1", "::ffff:127.0.0.1", "127.0.0.53"])
def test_a_rebound_name_is_refused_on_loopback(host: str, local: str) -> None:
    assert verdict({"Host": host}, local=local) == 403
    assert verdict({"Host": host}, local=LAN) == 200


def test_names_can_be_allowed() -> None:
    allowed = BrowserPolicy.parse([], ["LLM.example.com", "::1"])
    assert verdict({"Host": "llm.example.com:8000"}, allowed=allowed) == 200
    assert verdict({"Host": "other.example.com"}, allowed=allowed) == 403
    assert verdict({"Host": "other.example.com"}, allowed=BrowserPolicy.parse([], ["*"])) == 200


@every_row(
    "origin, host",
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://127.0.0.1", "127.0.0.1"),
        ("https://llm.example.com", "llm.example.com"),  # behind a proxy that has taken the TLS off
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://LOCALHOST:80", "localhost"),
    ],
)
def test_a_page_of_the_server_itself_is_served(origin: str, host: str) -> None:
    assert verdict({"Host": host, "Origin": origin}, local=LAN) == 200


@every_row(
    "origin", ["http://evil.example", "http://localhost:3000", "https://localhost", "null", "file://", "http://", "x"]
)
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    headers = {"Host": "localhost:8000", "Origin": origin}
    assert verdict(headers, method="POST") == verdict(headers) == 403
    assert verdict(headers, allowed=BrowserPolicy.parse(["*"], [])) == 200


def test_origins_can_be_allowed() -> None:
    allowed = BrowserPolicy.parse(["http://localhost:3000/", "null"], [])
    for origin, status in {"http://localhost:3000": 200, "null": 200, "http://localhost:3001": 403}.items():
        assert verdict({"Host": "localhost", "Origin": origin}, allowed=allowed) == status


def test_a_browser_that_hides_the_origin_is_seen_by_its_other_mark() -> None:
    headers = {"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}
    assert verdict(headers, method="DELETE") == verdict(headers, method="POST") == 403
    assert verdict(headers) == 403


LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_is_followed_and_no_part_of_another_page_is_served(site: str) -> None:
    headers = {"Host": "localhost", "Sec-Fetch-Site": site}
    assert verdict(headers | LINK) == 200
    assert verdict(headers | LINK, method="POST") == verdict(headers | LINK, method="DELETE") == 403
    for part in ({"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}):
        assert verdict(headers | LINK | part) == 403
        assert verdict(headers | LINK | part | {"Sec-Fetch-Site": "same-origin"}) == 200
        assert verdict(headers | LINK | part, allowed=BrowserPolicy.parse(["*"], [])) == 200


@pytest.mark.parametrize("kind", ["text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x"])
def test_what_is_no_json_is_refused(kind: str) -> None:
    assert verdict({"Host": "localhost", "Content-Type": kind}, method="POST") == 415


@pytest.mark.parametrize("kind", [{}, {"Content-Type": "application/x-www-form-urlencoded"}])
def test_what_curl_sends_is_served_unless_it_comes_from_a_browser(kind: dict[str, str]) -> None:
    assert verdict({"Host": "localhost"} | kind, method="POST") == 200
    of_browser = {"Host": "localhost", "Origin": "http://localhost"} | kind
    assert verdict(of_browser, method="POST") == 415
    assert verdict(of_browser | {"Content-Type": "application/json"}, method="POST") == 200


@every_row("origin", ["localhost:3000", "http://", "http://a/b", "http://u@a", ""])
def test_an_origin_that_is_none(origin: str) -> None:
    with pytest.raises(BrowserPolicyError, match="not an origin"):
        BrowserPolicy.parse([origin], [])


def test_a_name_that_is_none() -> None:
    with pytest.raises(BrowserPolicyError, match="not a name"):
        BrowserPolicy.parse([], ["http://a/"])


# --- through the application ------------------------------------------------------------------------------------------


def client(**allowed: Any) -> Any:  # noqa: ANN401
    given = BrowserPolicy.parse(allowed.get("origins", ()), allowed.get("hosts", ()))
    return create_app(as_engine(FakeEngine(say("a"))), browser_policy=given, keys=allowed.get("keys")).test_client()


async def test_a_refusal_comes_before_the_body_and_names_the_flag() -> None:
    engine = FakeEngine(say("a"))
    async with posting(
        create_app(as_engine(engine)), CHAT, b"", more=True, headers={"origin": "http://evil.example"}
    ) as no:
        answer = await no.receive()
    assert no.status == 403
    assert b"--allow-origin http://evil.example" in answer
    assert b'"code":"origin_not_allowed"' in answer.replace(b" ", b"")


async def test_every_url_is_refused_by_a_rebound_name() -> None:
    app = create_app(as_engine(FakeEngine()))
    for path in (CHAT, "/v1/requests", "/health", "/nothing"):
        async with posting(app, path, b"{}", headers={"host": "evil.example"}) as asked:
            assert b"--allow-host evil.example" in await asked.receive_all()
        assert asked.status == 403


async def test_a_browser_that_asks_first_is_answered_without_a_key() -> None:
    asks = {
        "Origin": "http://localhost:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    keyed = client(origins=["http://localhost:3000"], keys=KeyRing([plain_key(b"sk-1")]))
    answer = await keyed.options(CHAT, headers=asks)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["vary"] == "Origin"
    refused = await keyed.options(CHAT, headers=asks | {"Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert "access-control-allow-origin" not in refused.headers
    assert preflight_headers(Headers()) is None


async def test_an_allowed_page_can_read_its_answers_and_its_errors() -> None:
    page = {"Origin": "http://localhost:3000"}
    allowed = client(origins=["http://localhost:3000"])
    for path, status in {"/v1/models": 200, "/nothing": 404}.items():
        answer = await allowed.get(path, headers=page)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == page["Origin"]
    assert (await client(origins=["*"]).get("/health", headers=page)).headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await client().get("/health")).headers
