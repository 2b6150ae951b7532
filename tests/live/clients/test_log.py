"""The log: a line for each request that ended or was refused, and none that a client could forge."""

from __future__ import annotations

import io
import logging
import re
import signal
import socket
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import pytest

from actors.core.generation import Failed, Finished, FinishReason, GenerationRequest, Timings
from actors.core.receipts import CancelReason
from actors.generating.request_log import RequestLog
from runtime.errors import CedeError, DeadlineExceeded
from runtime.log_text import MAX_LINE, OneLineFormatter, literal
from runtime.sampling.params import SamplingParams
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import CHAT, COMPLETIONS, Server, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORGERY = "x\r\n2026-01-01 00:00:00,000 ERROR   cede.web: forged\x1b[2J\x9b31m\u2028\0\x7f"
RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) +cede\.\w+: ")

# --- the helper and the formatter -------------------------------------------------------------------------------------


def test_a_literal_is_printable_and_short() -> None:
    assert literal("plain") == "'plain'"
    assert literal(FORGERY).isprintable()
    assert len(literal("\x1b" * 10_000)) <= 4 * 200 + 5
    assert literal("a" * 300, limit=3) == "'aaa'..."


@pytest.fixture
def formatted() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger, and what the formatter makes of it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLineFormatter())
    logger = logging.getLogger("cede.test")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, written
    logger.removeHandler(handler)
    logger.propagate = True


def test_every_record_is_one_line(formatted: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = formatted
    logger.warning("said: %s", FORGERY)
    logger.warning("long: %s", "a" * 10 * MAX_LINE)
    lines = written.getvalue().splitlines()
    assert len(lines) == 2
    assert all(RECORD.match(line) and line.isprintable() and len(line) < MAX_LINE + 10 for line in lines)


def test_a_tracebacks_lines_are_no_records(formatted: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = formatted
    try:
        raise ValueError(FORGERY)
    except ValueError:
        logger.exception("failed")
    first, *rest = written.getvalue().split("\n")[:-1]
    assert RECORD.match(first)
    assert all(line.startswith("    | ") and line.isprintable() for line in rest)


# --- one line per request ---------------------------------------------------------------------------------------------


def ended(index: int, reason: FinishReason, tokens: int) -> Finished:
    timings = Timings(prompt_n=3, cache_n=2, prompt_ms=5.0, predicted_n=tokens, predicted_ms=1000.0)
    return Finished(index, reason, "", 5, 2, tokens, timings)


@pytest.mark.parametrize(
    ("ends", "cancel", "says"),
    [
        ([ended(0, FinishReason.STOP, 11)], CancelReason.DISCONNECT, "200 stop, 5 prompt tokens (2 cached), 11 tokens"),
        (
            [ended(0, FinishReason.CANCELLED, 3)],
            CancelReason.STALLED_READER,
            "499 cancelled (stalled_reader), 5 prompt tokens (2 cached), 3 tokens",
        ),
        ([ended(0, FinishReason.CANCELLED, 3)], CancelReason.OPERATOR, "200 cancelled (operator), 5 prompt"),
        (
            [Failed(0, DeadlineExceeded("late"))],
            CancelReason.DEADLINE,
            "504 deadline_exceeded, 5 prompt tokens (0 cached)",
        ),
        ([Failed(0, CedeError("oh"))], None, "500 failed, 5 prompt tokens"),
    ],
)
async def test_how_a_request_ended(
    ends: list[Finished | Failed], cancel: CancelReason | None, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = RequestLog(GenerationRequest("cmpl-1", ((1, 2, 3, 4, 5),), SamplingParams()))
    for event in ends:
        log.add(event)
    with caplog.at_level("INFO", "cede.engine"):
        log.write(cancel)
    (message,) = caplog.messages
    assert message.startswith(f"cmpl-1: {says}")


async def test_the_rate_is_that_of_all_generations(caplog: pytest.LogCaptureFixture) -> None:
    log = RequestLog(GenerationRequest("cmpl-1", ((1,), (1,)), SamplingParams()))
    log.add(ended(0, FinishReason.STOP, 11))
    log.add(ended(1, FinishReason.LENGTH, 21))
    with caplog.at_level("INFO", "cede.engine"):
        log.write(None)
    assert re.fullmatch(
        r"cmpl-1: 200 stop length, 2 prompt tokens \(4 cached\), 32 tokens in \d\.\d\d s, 30\.0 tokens/s",
        caplog.messages[0],
    )


# --- a server ---------------------------------------------------------------------------------------------------------


def test_a_server_says_what_happens_and_nobody_can_forge_it(tmp_path: Path) -> None:
    with ForkedServer(tmp_path, "--slots", "2", "--top-k", "7") as server:
        finished, hung_up = _some_requests(server)
        _hostile_requests(server)
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        log = server.log()

    for line in log.splitlines():
        assert RECORD.match(line) or line.startswith("    | "), line
        assert line.isprintable()
    assert log == "".join(f"{line}\n" for line in log.splitlines()), "other line ends"
    assert not re.search(r"^\S+ \S+ (WARNING|ERROR) +\S+ (?!connection from)", log, re.MULTILINE)

    for what in (
        r"cede\.model: \w+ForCausalLM on cpu in \w+, weights: [^,]+ of \w+, 1 CPU threads: 2 slots of \d+ tokens",
        r"cede\.kv: KV blocks beyond the slots: at most [\d.]+ [KMG]iB in memory",
        r"cede\.web: sampling of .*temperature 0\.8, top_p 0\.95 \(generation_config\.json\); top_k 7 \(operator\)",
        r"cede\.web: listening at http://127\.0\.0\.1:\d+",
        rf"cede\.engine: {finished}: 200 length, 4 prompt tokens \(0 cached\), 6 tokens in [\d.]+ s, [\d.]+ tokens/s",
        rf"cede\.engine: {hung_up}: 499 cancelled \(client_disconnect\), 20 prompt tokens",
        r"cede\.web: 'POST /v1/completions': 400 \"Invalid 'max_tokens': ",
        r"cede\.web: 'GET /nowhere': 404 'Unknown request URL: GET /nowhere",
        r"cede\.web: SIGTERM: finishing 0 requests",
        r"cede\.web: stopped; requests served: \d+$",
    ):
        assert len(re.findall(rf" INFO +{what}", log, re.MULTILINE)) == 1, what


def _some_requests(server: Server) -> tuple[str, str]:
    """One that ends well, one whose client hangs up, two that are refused; the ids of the first two."""
    _, answer = server.ask("POST", COMPLETIONS, {"prompt": [1, 2, 3, 4], "max_tokens": 6, "ignore_eos": True})
    with Http1(server, completion(prompt(20), 4000)) as left:
        left.read_tokens(1)
    server.wait_ended(left.id)
    assert server.ask("POST", COMPLETIONS, {"prompt": "x", "max_tokens": "many"})[0] == 400
    assert server.ask("GET", "/nowhere")[0] == 404
    return answer["id"], left.id


def _hostile_requests(server: Server) -> None:
    """A forged line wherever a client can write one."""
    quoted = "".join(f"%{byte:02x}" for byte in FORGERY.encode())
    message = {"role": "user", "content": FORGERY}
    for body in (
        {"messages": [message], "max_tokens": 1, FORGERY: 1, "model": FORGERY, "user": FORGERY},
        {"messages": [message | {"name": FORGERY}], "max_tokens": 1, "stop": FORGERY},
        {"messages": [message], "max_tokens": FORGERY},
        {"messages": [message], "logit_bias": {FORGERY: 1}},
        {"messages": [message | {"role": FORGERY}]},
        {"messages": [message], "chat_template_kwargs": {FORGERY: FORGERY}, "max_tokens": 1},
        FORGERY,
    ):
        server.ask("POST", CHAT, body)
    for method, path in (
        ("GET", f"/v1/models/{quoted}"),
        ("GET", f"/{quoted}"),
        ("PUT", f"/v1/models?{quoted}"),
        ("DELETE", f"/v1/requests/{quoted}"),
        ("GET", f"/v1/receipts?limit={quoted}"),
    ):
        assert server.ask(method, path)[0] >= 400
    server.ask(
        "POST", f"/{quoted}", None, **{"content-type": "text/x", "x-request-id": "\x1b[2J", "user-agent": "\x9b"}
    )
    _path_that_is_no_text(server)


def _path_that_is_no_text(server: Server) -> None:
    """Over HTTP/2, where it is an exception of Hypercorn's that quotes it."""
    quiet = h2.config.H2Configuration(validate_outbound_headers=False, header_encoding=None)
    connection = h2.connection.H2Connection(quiet)
    connection.initiate_connection()
    path = b"/\xff\x1b[2J2026-01-01 00:00:00,000 ERROR   cede.web: forged"
    headers = [(b":method", b"GET"), (b":path", path), (b":scheme", b"http"), (b":authority", b"localhost")]
    connection.send_headers(1, headers, end_stream=True)
    with socket.create_connection(server.address) as client:
        client.sendall(connection.data_to_send())
        wait_for(lambda: "ended:" in server.log(), "the guard's line")


def test_what_people_write_is_not_logged(tmp_path: Path) -> None:
    secret = "do not tell anybody"
    with ForkedServer(tmp_path, "--log-level", "debug") as server:
        for fields in ({"max_tokens": 2}, {"temperature": 9}):
            server.ask("POST", CHAT, {"messages": [{"role": "user", "content": secret}]} | fields)
        assert secret not in server.log()
