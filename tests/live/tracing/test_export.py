"""A server whose environment asks for traces, and a collector that decodes what it gets."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Server, wait_for
from tests.live.tracing.collector import Collector, about, open_collector

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(folder: Path, url: str, *flags: str, **variables: str) -> ForkedServer:
    """Return a server that is to export its traces to this address."""
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}  # milliseconds
    return ForkedServer(folder, *flags, environment=asked | variables)


def test_a_collector_gets_each_request_with_its_phases_and_why_it_was_cancelled(tmp_path: Path) -> None:
    with open_collector() as collector:
        with traced(tmp_path, collector.url, "--slots", "1", "--speculate", "ngram") as server:
            body = {"prompt": [1, 2, 3, 4], "max_tokens": 6, "ignore_eos": True}
            _, answer = server.ask("POST", COMPLETIONS, body, traceparent=PARENT)
            decoding = _hang_up_while_another_waits(server)
            receipts = {name: server.wait_ended(name)[0] for name in decoding}
            with Http1(server, completion(prompt(9), 4000)) as last:
                last.read_tokens(1)
                server.ask("DELETE", f"/v1/requests/{last.id}")
                last.read_all()
            server.signal(signal.SIGTERM)
            assert server.wait_exit() == 0
            assert collector.request(last.id), "the server's end waits for the last trace"
    assert collector.services == {"cede"}
    _check_finished(collector, answer["id"])
    for name, receipt in receipts.items():
        _check_cancelled(collector, name, receipt)
    operator = collector.request(last.id)
    assert operator is not None
    assert about(operator)["cede.cancel.reason"] == "operator"
    _check_whole(collector)


def _hang_up_while_another_waits(server: Server) -> list[str]:
    """Two clients that leave, one while its tokens come and one from the queue behind it; their requests' ids."""
    with Http1(server, completion(prompt(20, 1), 4000)) as decoding:
        decoding.read_tokens(1)
        with Http1(server, completion(prompt(20, 2), 4000)) as waiting:
            wait_for(lambda: len(server.requests()) == 2, "the second to wait")
            (waiting_id,) = set(server.requests()) - {decoding.id}
        server.wait_ended(waiting_id)
        assert waiting is not None
    return [decoding.id, waiting_id]


def _check_finished(collector: Collector, request_id: str) -> None:
    span = collector.request(request_id)
    assert span is not None
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == tuple(PARENT.split("-")[1:3])
    assert (span.kind, span.status.code) == (Span.SPAN_KIND_SERVER, Status.STATUS_CODE_UNSET)
    usage = about(span)
    assert (usage["gen_ai.usage.input_tokens"], usage["gen_ai.usage.output_tokens"]) == (4, 6)
    assert usage["gen_ai.operation.name"] == "text_completion"
    assert set(collector.children(span)) == {"queued", "prefill", "decode"}


def _check_cancelled(collector: Collector, request_id: str, receipt: dict[str, object]) -> None:
    span = collector.request(request_id)
    assert span is not None
    assert span.parent_span_id == b""
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message == f"cancelled: client_disconnect in {receipt['phase']}"
    children = collector.children(span)
    ended = children["queued" if receipt["phase"] == "queued" else "decode"]
    assert len(children) == (1 if receipt["phase"] == "queued" else 3)
    for one in (span, ended):
        assert about(one)["cede.cancel.reason"] == receipt["reason"]
        assert about(one)["cede.cancel.kept_tokens"] == receipt["kept_tokens"]


def _check_whole(collector: Collector) -> None:
    """Every span that was exported has ended, once, and lies within its parent, which was exported, too."""
    by_id = {span.span_id: span for span in collector.spans}
    assert len(by_id) == len(collector.spans)
    for span in collector.spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.kind == Span.SPAN_KIND_INTERNAL:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_a_collector_that_is_down_costs_one_line_in_the_log_and_no_request(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with traced(tmp_path, url, "--log-format", "json") as server:
            for seed in range(3):
                body = {"prompt": list(prompt(4, seed)), "max_tokens": 3}
                assert server.ask("POST", COMPLETIONS, body)[0] == 200
            server.wait_log("takes no traces")
            assert server.ask("POST", COMPLETIONS, {"prompt": [9, 9, 9], "max_tokens": 3})[0] == 200
            server.signal(signal.SIGTERM)
            assert server.wait_exit() == 0
            records = [json.loads(line) for line in server.log().splitlines()]
    (loud, *last) = [record["message"] for record in records if record["level"] in ("warning", "error")]
    assert loud.startswith("the collector takes no traces, and they are lost until it does: ")
    assert "refused" in loud
    assert last in ([], ["the collector does not answer: the last traces are lost"])


def test_what_asks_for_another_protocol_is_refused_at_the_start(tmp_path: Path) -> None:
    with traced(tmp_path, "http://127.0.0.1:1", OTEL_EXPORTER_OTLP_PROTOCOL="grpc") as server:
        assert server.wait_exit() == 1
        assert server.log() == "Error: OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; only http/protobuf is spoken\n"
