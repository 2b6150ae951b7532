"""Passage through the front door: what it lets through, and what becomes of it."""

from __future__ import annotations

import errno
import gzip
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from werkzeug.routing import Map, Rule

from tests.live.h2_client import H2Client
from tests.live.server import PATIENCE
from tests.unit.web.cluster.door.doors import ANSWER, LOOPBACK, Behind, open_client, open_door
from web.cluster.door import exchange
from web.cluster.door.passage import ControlPlace
from web.http.browser_policy import BrowserPolicy

if TYPE_CHECKING:
    import httpx

CHAT = "/v1/chat/completions"
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"
BY_BROWSERS: dict[str, dict[str, str]] = {
    "host_not_allowed": {"host": "rebound.example"},
    "origin_not_allowed": {"origin": "http://page.example"},
    "unsupported_media_type": {"content-type": "text/plain"},
}


def code_of(response: httpx.Response) -> Any:  # noqa: ANN401  # JSON
    return response.json()["error"]["code"]


async def test_a_request_passes_as_it_is_and_so_does_its_answer() -> None:
    behind = Behind(ANSWER)
    async with open_door(behind) as (_, port), open_client(port) as client:
        headers = {"x-dynamo-request-id": "r1", "te": "trailers", "content-type": "application/json"}
        response = await client.post(f"{CHAT}?a=%2Fb", content=b"{}", headers=headers)
    assert (response.status_code, response.content, response.headers["x-of-dynamo"]) == (200, b"hi", "yes")
    ((request, body),) = behind.asked
    assert (request.method, request.target, body) == (b"POST", b"/v1/chat/completions?a=%2Fb", b"{}")
    told = dict(request.headers)
    assert told[b"host"] == f"{LOOPBACK}:{port}".encode()
    assert told[b"x-dynamo-request-id"] == b"r1"
    assert told[b"connection"] == b"close"
    assert b"te" not in told


MODELS = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"


@pytest.mark.parametrize(
    ("listed", "passed"),
    [
        (b'{"data": [{"id": "a"}]}', b' {"model": "a",  "prompt": "x"}'),
        (b'{"data": [{"id": "a"}, {"id": "b"}]}', b' { "prompt": "x"}'),
        (b'{"data": []}', b' { "prompt": "x"}'),
    ],
)
async def test_what_curl_says_of_a_body_is_not_believed_and_the_only_model_is_meant_where_none_is_named(
    listed: bytes, passed: bytes
) -> None:
    behind = Behind(MODELS % (len(listed), listed), ANSWER, ANSWER)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    async with open_door(behind) as (_, port), open_client(port) as client:
        await client.post(CHAT, content=b' { "prompt": "x"}', headers=headers)
        await client.post(CHAT, content=b'{"model": "m"}')
    (models, _), (request, body), (_, named) = behind.asked
    assert (models.method, models.target) == (b"GET", b"/v1/models")
    assert [value for name, value in request.headers if name == b"content-type"] == [b"application/json"]
    assert (body, named) == (passed, b'{"model": "m"}')


async def test_what_the_control_address_has_is_to_be_asked_there_and_nothing_else_is() -> None:
    behind = Behind(ANSWER, ANSWER)
    rules = [Rule(path, methods=["GET"], endpoint=path) for path in ("/", "/slots", "/docs")]
    async with open_door(behind, control=ControlPlace(Map(rules), 7)) as (_, port), open_client(port) as client:
        told = [await client.get(path) for path in ("/", "/slots?a=%2F", "/docs")] + [await client.post("/slots")]
    assert [answer.status_code for answer in told] == [307, 307, 200, 200]
    assert [answer.headers.get("location") for answer in told[:2]] == [
        f"http://{LOOPBACK}:7/",
        f"http://{LOOPBACK}:7/slots?a=%2F",
    ]
    assert "control address" in told[0].text


@pytest.mark.parametrize("code", BY_BROWSERS)
async def test_what_a_page_of_another_origin_asks_is_refused_and_goes_no_further(code: str) -> None:
    behind = Behind(ANSWER, ANSWER)
    async with open_door(behind) as (_, port), open_client(port) as client:
        assert code_of(await client.post(CHAT, content=b"{}", headers=BY_BROWSERS[code])) == code
    assert behind.asked == []


@pytest.mark.parametrize("code", BY_BROWSERS)
async def test_the_rules_hold_for_each_request_of_a_connection(code: str) -> None:
    behind = Behind(ANSWER, ANSWER)
    async with open_door(behind) as (_, port), open_client(port) as client:
        fine = {"content-type": "application/json"}
        for _ in range(2):  # on the same connection
            assert (await client.post(CHAT, content=b"{}", headers=fine)).status_code == 200
            assert code_of(await client.post(CHAT, content=b"{}", headers=BY_BROWSERS[code])) == code
    assert len(behind.asked) == 2


async def test_who_is_allowed_by_name_is_served() -> None:
    behind, policy = Behind(ANSWER), BrowserPolicy.parse(["http://page.example"], ["rebound.example"])
    headers = {"host": "rebound.example", "origin": "http://page.example", "content-type": "application/json"}
    async with open_door(behind, policy) as (_, port), open_client(port) as client:
        response = await client.post(CHAT, content=b"{}", headers=headers)
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "http://page.example")


async def test_a_preflight_is_answered_here() -> None:
    behind, policy = Behind(), BrowserPolicy.parse(["http://page.example"], [])
    headers = {"origin": "http://page.example", "access-control-request-method": "POST"}
    async with open_door(behind, policy) as (_, port), open_client(port) as client:
        assert (await client.options(CHAT, headers=headers)).status_code == 204


async def test_a_body_that_is_too_large_goes_no_further() -> None:
    behind = Behind()
    async with open_door(behind) as (_, port), open_client(port) as client:
        headers = {"content-type": "application/json"}
        assert (await client.post(CHAT, content=bytes(2000), headers=headers)).status_code == 413
    assert behind.asked == []


async def test_a_stream_is_passed_on_as_it_comes_and_a_part_of_one_is_no_whole() -> None:
    behind = Behind(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    async with open_door(behind) as (_, port):
        stream = await trio.open_tcp_stream(LOOPBACK, port)
        async with stream:
            await stream.send_all(ASK)
            told = b""
            while data := await stream.receive_some():
                told += data
    assert b"3\r\nabc\r\n" in told
    assert not told.endswith(b"0\r\n\r\n")


async def test_a_compressed_body_passes_as_what_it_is() -> None:
    behind = Behind(ANSWER)
    async with open_door(behind) as (_, port), open_client(port) as client:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        await client.post(CHAT, content=gzip.compress(b"{}", mtime=0), headers=headers)
    ((request, body),) = behind.asked
    assert body == b"{}"
    assert b"content-encoding" not in dict(request.headers)


async def test_no_more_requests_pass_than_there_are_descriptors_for() -> None:
    """Over HTTP/2 a client may have many."""
    behind = Behind(*[None] * 4)
    async with open_door(behind) as (_, port):
        stream = await trio.open_tcp_stream(LOOPBACK, port)
        client = H2Client(stream)
        for _ in range(4):
            await client.ask("GET", b"/v1/models")
        assert await client.answer(await client.ask("GET", b"/v1/models")) == b"503"
        assert len(behind.asked) <= 4
        await stream.aclose()


async def test_want_of_descriptors_is_said_to_be_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_nothing(*_address: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with open_door(Behind()) as (_, port), open_client(port) as client:
        monkeypatch.setattr(exchange, "trio", SimpleNamespace(open_tcp_stream=open_nothing))
        response = await client.get("/v1/models")
    assert response.status_code == 503
    assert "ulimit -n" in response.json()["error"]["message"]


async def test_who_hangs_up_has_his_request_hung_up() -> None:
    behind = Behind(None)
    async with open_door(behind) as (_, port):
        with trio.fail_after(PATIENCE):
            async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                await stream.send_all(ASK)
                await behind.came.wait()
            await behind.left.wait()


async def test_a_server_that_is_gone_is_said_to_be() -> None:
    async with open_door(Behind(b"")) as (_, port), open_client(port) as client:
        response = await client.get("/v1/models")
    assert (response.status_code, response.json()["error"]["type"]) == (503, "unavailable_error")


async def test_an_end_waits_for_what_passes_and_names_what_does_not_end(
    mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    behind = Behind(None)
    async with open_door(behind) as (passage, port), open_client(port) as client:
        async with await trio.open_tcp_stream(LOOPBACK, port) as stream, trio.open_nursery() as nursery:
            await stream.send_all(ASK)
            await behind.came.wait()
            nursery.start_soon(passage.drain, 7.0)
            await trio.testing.wait_all_tasks_blocked()
            refused = await client.get("/v1/models")
            assert (refused.status_code, code_of(refused)) == (503, "shutting_down")
            assert "cut off" not in caplog.text
            mock_clock.jump(7.0)
        assert "cut off: POST /v1/chat/completions" in caplog.text
        with trio.fail_after(PATIENCE):
            await passage.drain(7.0)  # whoever was left has hung up since
