"""Real clients leave and come back: what they read is what they would have read without."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.live.detached.cutting import FLAGS, asking, body_of, events_in, run, text_of
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    with ForkedServer(tmp_path_factory.mktemp("server"), *FLAGS, "--hang-timeout", "0") as made:
        yield made


def test_cut_streams_and_killed_clients(server: ForkedServer) -> None:
    outcome = run(server, streams=4, kills=4)
    assert not outcome.wrong, outcome.wrong
    assert all(outcome.cuts.values())
    server.wait_idle()


def test_openais_client_reads_a_stream_that_may_be_cut(server: ForkedServer) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    asked = {"model": "any", "prompt": "Once", "max_tokens": 40, "temperature": 0, "extra_body": {"ignore_eos": True}}
    detach = {"x-cede-on-disconnect": "detach"}
    with client.completions.with_raw_response.create(stream=True, extra_headers=detach, **asked).parse() as stream:  # type: ignore[call-overload]
        first = next(iter(stream)).choices[0].text
        request_id = stream.response.headers["x-request-id"]
    with asking(server, "GET", f"/v1/requests/{request_id}/stream") as response:
        whole = text_of(events_in(response.read()))
    assert whole.startswith(first)
    assert whole == client.completions.create(**asked).choices[0].text  # type: ignore[call-overload]


def test_finish_prefill_reads_the_prompt_for_the_retry(server: ForkedServer) -> None:
    ids = prompt(900, seed=7)
    body = completion(ids, 100, cede={"on_disconnect": "finish_prefill"})
    with server.held(), Http1(server, body):  # or it may be answered before the client leaves
        request_id = wait_for(lambda: next(iter(server.requests()), ""), "the request")
    (receipt,) = wait_for(lambda: server.receipts(request_id), "its receipt")
    assert receipt["reason"] in ("prefill_finished", "client_disconnect")  # where it was read before the hang-up
    assert receipt["kept_tokens"] >= 900
    _, answer = server.ask("POST", "/v1/completions", completion(ids, 1, stream=False))
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 899


def test_delete_ends_one_that_nobody_reads(server: ForkedServer) -> None:
    path, body = body_of("after", "Once upon", on_disconnect="detach")
    body["max_tokens"] = 900
    with server.held():  # or it may end by itself
        with asking(server, "POST", path, body) as response:
            request_id = response.headers["x-request-id"]
        wait_for(lambda: server.get("/v1/statistics")["detachable"]["detached"], "nobody to read it")
        assert server.ask("DELETE", f"/v1/requests/{request_id}")[0] == 200
    with asking(server, "GET", f"/v1/requests/{request_id}/stream") as response:
        last = events_in(response.read())
    assert b'"cancelled":"operator"' in b"".join(last)
    assert [receipt["reason"] for receipt in server.wait_ended(request_id)] == ["operator"]
