"""HTTPS: both protocols, hang-ups on TLS sockets, and certificates that cannot be used."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import openai
import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, Http2, completion, prompt
from tests.live.server import PATIENCE
from web.http.listeners import ListenError, tls_context


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    certfile, keyfile = map(str, certificate)
    flags = ["--ssl-certfile", certfile, "--ssl-keyfile", keyfile, "--slots", "2", "--chunk-tokens", "16"]
    flags += ["--hang-timeout", "0"]
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.mark.parametrize("http2", [False, True])
def test_the_openai_client_trusts_the_certificate(
    server: ForkedServer, certificate: tuple[Path, Path], http2: bool
) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    versions = []
    verify = ssl.create_default_context(cafile=certificate[0])
    hooks = {"response": [lambda response: versions.append(response.http_version)]}
    with (
        openai.DefaultHttpxClient(verify=verify, http2=http2, event_hooks=hooks, timeout=PATIENCE) as http,
        openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, http_client=http) as client,
    ):
        answer = client.completions.create(model="any", prompt="x", max_tokens=5, extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5
    assert versions == ["HTTP/2" if http2 else "HTTP/1.1"]


def kept_in(server: ForkedServer, phase: str, scope: ExitStack) -> ForkedServer:
    """Return the server; while the scope lasts it reads no prompt to its end, if one is to be met in that phase."""
    if phase == "prefill":
        scope.enter_context(server.held())
    return server


PHASES = pytest.mark.parametrize(("phase", "length"), [("decode", 10), ("prefill", 4000)])


@PHASES
@pytest.mark.parametrize("way", ["close", "reset", "goodbye"])
def test_a_hang_up_is_seen(server: ForkedServer, way: str, phase: str, length: int) -> None:
    body = completion(prompt(length, seed=sum(way.encode())), 3000 if phase == "decode" else 50)
    with ExitStack() as kept, Http1(kept_in(server, phase, kept), body) as stream:
        server.wait_state(stream.id, phase)
        if way == "reset":
            stream.reset()
        if way == "goodbye":
            assert isinstance(stream.socket, ssl.SSLSocket)
            stream.socket.setblocking(False)
            with suppress(ssl.SSLError):  # the server's own goodbye is not waited for
                stream.socket.unwrap()
            server.slots()  # the answer comes after that was seen, as a rule
            kept.close()
            server.wait_ended(stream.id)
    (receipt,) = server.wait_ended(stream.id)
    assert receipt["reason"] == "client_disconnect"


@PHASES
@pytest.mark.parametrize("whole", [False, True])
def test_a_hang_up_is_seen_over_http2(server: ForkedServer, whole: bool, phase: str, length: int) -> None:
    """Of one stream, or of the `whole` connection."""
    with ExitStack() as kept, Http2(kept_in(server, phase, kept)) as connection:
        stream = connection.open(completion(prompt(length, seed=int(whole)), 3000 if phase == "decode" else 50))
        server.wait_state(stream.id, phase)
        if not whole:
            stream.reset()
            server.slots()  # the answer comes after that was seen, as a rule
            kept.close()
            server.wait_ended(stream.id)
    (receipt,) = server.wait_ended(stream.id)
    assert receipt["reason"] == "client_disconnect"


def test_who_does_not_speak_tls_is_turned_away(server: ForkedServer) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        with suppress(ConnectionResetError):
            while plain.recv(1024):
                pass
    assert server.get("/health") == {"status": "ok"}
    assert "Traceback" not in server.log()


def test_what_is_no_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    certfile, keyfile = certificate
    for files in ((keyfile, keyfile), (certfile, certfile), (certfile, None)):
        with pytest.raises(ListenError, match="no certificate for TLS"):
            tls_context(*files)


def test_whoever_forgot_the_key_is_told_of_its_flag(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(ListenError, match="--keyfile"):
        tls_context(certificate[0], None)
