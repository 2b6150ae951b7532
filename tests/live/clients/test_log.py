"""The log: a line for each request that ended or was refused, and none that a client could forge."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import h2.config
import h2.connection
import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import CHAT, COMPLETIONS, Json, Server

FORGERY = 'x\r\n{"level": "error"}\n2026-01-01 00:00:00.000 ERROR   web     forged\x1b[2J\x9b31m\u2028\0\x7f'
TEXT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (?P<level>\S+) +(?P<logger>\S+) +(?P<message>.+)")


def read_text(log: str) -> list[Json]:
    """The records of a log in text, tracebacks left out."""
    lines = [line for line in log.splitlines() if not line.startswith("    | ")]
    found = [TEXT.fullmatch(line) for line in lines]
    assert None not in found, lines[found.index(None)]
    return [match.groupdict() | {"level": match["level"].lower()} for match in found if match]


def read_json(log: str) -> list[Json]:
    """The records of a log in JSON."""
    records: list[Json] = [json.loads(line) for line in log.splitlines()]
    return [record | {"logger": record["logger"].removeprefix("cede.")} for record in records]


@pytest.mark.parametrize(
    ("flags", "read"), [(("--log-format", "text"), read_text), (("--log-format", "auto"), read_json)]
)
def test_a_server_says_what_happens_and_nobody_can_forge_it(
    tmp_path: Path, flags: tuple[str, ...], read: Callable[[str], list[Json]]
) -> None:
    with ForkedServer(tmp_path, "--slots", "2", "--top-k", "7", *flags) as server:
        finished, hung_up = _some_requests(server)
        _hostile_requests(server)
        log = server.whole_log()

    assert all(line.isprintable() for line in log.splitlines())
    assert log == "".join(f"{line}\n" for line in log.splitlines()), "other line ends"
    records = read(log)
    assert {record["logger"] for record in records} <= {"engine", "web", "kv", "model"}
    loud = [record["message"] for record in records if record["level"] not in ("info", "debug")]
    assert [message for message in loud if not message.startswith("connection from")] == []

    said = "\n".join(f"{record['logger']}: {record['message']}" for record in records if record["level"] == "info")
    for what in (
        r"model: \w+ForCausalLM on cpu in \w+, weights: (?:[^,]+ of \w+, )+1 CPU thread: 2 slots, \d+ tokens in all",
        r"kv: KV blocks beyond the slots: at most [\d.]+ [KMG]iB in memory",
        r"web: sampling of .*temperature 0\.8, top_p 0\.95 \(generation_config\.json\); top_k 7 \(operator\)",
        r"web: listening at http://127\.0\.0\.1:\d+",
        rf"engine: {finished}: 200 length, 4 prompt tokens \(0 cached\), 6 tokens .*[\d.]+ s \(.*\), [\d.]+ tokens/s",
        rf"engine: {hung_up}: 499 cancelled \(client_disconnect in \w+\), 20 prompt tokens",
        r"web: 'POST /v1/completions': 400 \"Invalid 'max_tokens': ",
        r"web: 'GET /nowhere': 404 'Unknown request URL: GET /nowhere",
        r"web: SIGTERM: finishing 0 requests",
        r"web: stopped; requests served: \d+$",
    ):
        assert len(re.findall(rf"^{what}", said, re.MULTILINE)) == 1, what


def test_a_line_of_json_has_the_figures_and_whose_request_it_is(tmp_path: Path) -> None:
    with ForkedServer(tmp_path, "--log-format", "json") as server:
        finished, hung_up = _some_requests(server)
        (receipt,) = server.receipts(hung_up)
        (model,) = server.get("/v1/models")["data"]
        records = read_json(server.whole_log())
    ends = {record["request_id"]: record for record in records if "ended" in record}
    assert (ends[finished]["status"], ends[finished]["ended"], ends[finished]["generated_tokens"]) == (200, "length", 6)
    assert (ends[finished]["prompt_tokens"], ends[finished]["model"]) == (4, model["id"])
    assert "cancel_reason" not in ends[finished]
    left = ends[hung_up]
    assert (left["status"], left["cancel_reason"], left["cancel_phase"]) == (499, receipt["reason"], receipt["phase"])
    parts = sum(left[f"{part}_seconds"] for part in ("queued", "prefill", "decode"))
    assert 0 < parts <= left["seconds"] + 1e-3
    (cancel,) = (record for record in records if "kept_tokens" in record)
    assert (cancel["request_id"], cancel["kept_tokens"]) == (hung_up, receipt["kept_tokens"])
    refused = [(record["status"], record["path"]) for record in records if "path" in record]
    assert refused == [(400, COMPLETIONS), (404, "/nowhere")]


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
    path = b"/\xff\x1b[2J2026-01-01 00:00:00.000 ERROR   web     forged"
    headers = [(b":method", b"GET"), (b":path", path), (b":scheme", b"http"), (b":authority", b"localhost")]
    connection.send_headers(1, headers, end_stream=True)
    with socket.create_connection(server.address) as client:
        client.sendall(connection.data_to_send())
        server.wait_log("ended:")  # the guard's line


def test_what_people_write_and_are_answered_is_not_logged(tmp_path: Path) -> None:
    secret = "do not tell anybody"
    with ForkedServer(tmp_path, "--log-level", "debug", "--log-format", "json") as server:
        for fields in ({"max_tokens": 2}, {"temperature": 9}):
            server.ask("POST", CHAT, {"messages": [{"role": "user", "content": secret}]} | fields)
        answer = _ask_for_text(server, secret)
        log = server.whole_log()
    assert log.count("200 length") == 2
    assert [text for text in (secret, answer, "import") if text in log] == []


def test_who_asks_for_it_has_prompts_and_answers_in_the_log(tmp_path: Path) -> None:
    with ForkedServer(tmp_path, "--log-prompts", "on", "--log-format", "json") as server:
        answer = _ask_for_text(server, FORGERY)
        with Http1(server, completion(prompt(20), 4000)) as left:
            left.read_tokens(1)
        server.wait_ended(left.id)
        records = read_json(server.whole_log())
    assert [record for record in records if record["level"] == "warning"], "it is warned of"
    said = [record for record in records if "/0: prompt " in record["message"]]
    assert len(said) == 2
    assert "import os" in said[0]["message"]
    assert said[0]["prompt_text"].endswith(f"import os\n{FORGERY}")
    # The log has all that was written, an answer no special tokens.
    assert re.sub(r"<\|\w+\|>", "", said[0]["answer_text"]) == answer
    assert (said[1]["request_id"], said[1]["index"]) == (left.id, 0)
    assert said[1]["answer_text"]


def _ask_for_text(server: Server, text: str) -> str:
    """Ask for a completion of a text; what came."""
    body = {"prompt": f"import os\n{text}", "max_tokens": 12, "ignore_eos": True, "temperature": 0}
    _, answer = server.ask("POST", COMPLETIONS, body)
    written: str = answer["choices"][0]["text"]
    assert len(written.strip()) > 4
    return written
