"""API keys: who is served, who is not and how they are told, and where a key must never be seen."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import openai
import psutil
import pytest
from click.testing import CliRunner

from bench.client.harness.dialect import Dialect, RequestSpec
from bench.client.harness.targets import Target, open_target
from tests.live.fork_server import ForkedServer
from tests.live.server import PATIENCE, Server, refusals, wait_for
from web.commands.main import main

IN_FILE, IN_VARIABLE = ("sk-file-1", "sk-füle-2"), ("sk-env-1", "sk-env-2")
WRONG = "sk-wrong"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("\n".join(["", *IN_FILE, ""]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CEDE_API_KEY", " ".join(IN_VARIABLE))
        server = Server("--api-key-file", str(file), "--log-level", "debug")
    with server:
        yield server


def client_of(server: Server, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=PATIENCE)


def connection_to(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*server.address, timeout=PATIENCE)


@pytest.mark.parametrize("key", [IN_FILE[0], *IN_VARIABLE])
def test_the_openai_client_with_a_key_is_served(server: Server, key: str) -> None:
    with client_of(server, key) as client:
        answer = client.completions.create(model="any", prompt="x", max_tokens=3, extra_body={"ignore_eos": True})
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 3
        assert len(client.models.list().data) == 1


def test_the_openai_client_without_one_is_told(server: Server) -> None:
    with client_of(server, WRONG) as client, pytest.raises(openai.AuthenticationError) as refused:
        client.completions.create(model="any", prompt="x", stream=True)
    assert refused.value.code == "invalid_api_key"
    assert refused.value.type == "invalid_request_error"
    assert refused.value.response.headers["www-authenticate"] == "Bearer"


async def test_cede_bench_with_a_key_is_served(server: Server, tmp_path: Path) -> None:
    dialect = Dialect(model="", headers={"Authorization": f"Bearer {IN_FILE[0]}"})
    async with open_target(Target("keyed", server.url, dialect=dialect), tmp_path / "log") as running:
        trace = await running.client.send(RequestSpec((300, 301), max_tokens=3))
    assert (trace.tokens, running.client.dialect.model) == (3, "cede-embedded")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/requests"),
        ("GET", "/v1/statistics"),
        ("DELETE", "/v1/requests/x"),
        ("GET", "/v1/nothing"),
        ("GET", "/slots"),
        ("GET", "/health/x"),
    ],
)
def test_nothing_but_the_health_is_told_without_a_key(server: Server, method: str, path: str) -> None:
    for headers in ({}, {"Authorization": f"Bearer {WRONG}"}, {"Authorization": f"Basic {IN_FILE[0]}"}):
        status, answer = server.ask(method, path, **headers)
        assert status == 401
        assert answer["error"]["code"] == "invalid_api_key"
        assert WRONG not in json.dumps(answer)
    assert server.ask(method, path, Authorization=f"bearer  {IN_FILE[0]} ")[0] != 401
    assert server.get("/health") == {"status": "ok"}


def test_the_header_of_anthropics_clients_will_do(server: Server) -> None:
    assert server.ask("GET", "/v1/models", **{"x-api-key": IN_FILE[0]})[0] == 200
    assert server.ask("GET", "/v1/models", **{"x-api-key": WRONG})[0] == 401


def test_a_key_may_have_any_letters(server: Server) -> None:
    header = f"Bearer {IN_FILE[1]}".encode().decode("latin-1")
    assert server.ask("GET", "/v1/models", Authorization=header)[0] == 200


def test_the_refusal_does_not_wait_for_the_body(server: Server) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 401


def test_a_key_is_made_limited_seen_by_its_own_requests_alone_and_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "keys"

    def keys(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["keys", *arguments, "--api-key-file", str(file)], catch_exceptions=False)
        return done.stdout.strip()

    alice, bob = keys("add", "alice", "--requests", "1", "--tokens-per-minute", "60"), keys("add", "bob")
    as_alice, as_bob = {"Authorization": f"Bearer {alice}"}, {"Authorization": f"Bearer {bob}"}
    body = json.dumps({"prompt": "x", "stream": True, "ignore_eos": True, "n": 16, "max_tokens": -1}).encode()
    with (
        ForkedServer(tmp_path, "--api-key-file", str(file)) as server,
        contextlib.closing(connection_to(server)) as first,
    ):
        first.request("POST", "/v1/completions", body, as_alice | {"Content-Type": "application/json"})
        begun = first.getresponse()
        assert begun.status == 200
        assert begun.readline().startswith(b"data: ")
        with client_of(server, alice) as client, pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(model="any", prompt="x")
        assert refused.value.code == "rate_limit_exceeded"
        assert refused.value.response.headers["x-ratelimit-remaining-requests"] == "0"
        assert int(refused.value.response.headers["x-ratelimit-remaining-tokens"]) < 60
        (mine,) = server.ask("GET", "/v1/requests", **as_alice)[1]["data"]
        assert mine["owner"] == "alice"
        assert server.ask("GET", "/v1/requests", **as_bob)[1]["data"] == []
        assert server.ask("DELETE", f"/v1/requests/{mine['id']}", **as_bob)[0] == 404
        keys("remove", "bob")
        server.signal(signal.SIGHUP)
        wait_for(lambda: server.ask("GET", "/v1/models", **as_bob)[0] == 401, "bob's key to be refused")
        assert server.ask("DELETE", f"/v1/requests/{mine['id']}", **as_alice)[0] == 200
        begun.read()
        wait_for(lambda: server.ask("GET", "/v1/models", **as_alice)[0] == 200, "alice's to be served")


def test_no_key_is_seen_from_outside(server: Server) -> None:
    for key, status in ((IN_FILE[0], 200), (WRONG, 401)):
        assert server.ask("GET", "/v1/models", Authorization=f"Bearer {key}")[0] == status
    shown = server.wait_log("401") + " ".join(psutil.Process(server.pid).cmdline())
    assert "--api-key-file" in shown
    for key in (*IN_FILE, *IN_VARIABLE, WRONG):
        assert key not in shown


def test_no_key_where_one_is_expected_is_refused() -> None:
    """Rather than serving everybody."""
    (said,) = refusals([["serve", "--port", "0"]], CEDE_API_KEY=" ")
    assert "there is no key in CEDE_API_KEY" in said
