"""Behind nginx and HAProxy, as deployed, a stream is a stream, and a hang-up is a hang-up, in whatever phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.proxies.proxies import HAPROXY, NGINX, Kind, Proxied, proxy
from tests.live.server import stage, wait_for

SHORT = prompt(30, seed=2)
LONG = prompt(3800, seed=1)
KINDS = [pytest.param(NGINX, id="nginx"), pytest.param(HAPROXY, id="haproxy")]


@pytest.fixture(scope="module", params=KINDS)
def proxied(
    request: pytest.FixtureRequest, running_four_slots: ForkedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    kind: Kind = request.param
    with proxy(kind, running_four_slots, tmp_path_factory.mktemp("proxy")) as through:
        yield through


def test_a_stream_is_what_it_is_without_the_proxy(four_slots: ForkedServer, proxied: Proxied) -> None:
    body = completion(SHORT, 100)
    with Http1(four_slots, body) as direct, Http1(proxied, body) as through:
        assert through.read_all() == direct.read_all()
        assert (through.finish_reason, through.done) == ("length", True)


def test_each_token_is_passed_on_at_once(four_slots: ForkedServer, proxied: Proxied) -> None:
    with Http1(proxied, completion(SHORT, 4000)) as stream:
        stream.read_tokens(5)
        with four_slots.held():  # nothing comes that could push on what a proxy holds back
            four_slots.slots()  # the step that was in flight may yet have ended
            produced = int(four_slots.requests()[stream.id]["completion_tokens"])
            assert len(stream.read_tokens(produced)) >= produced
    four_slots.wait_ended(stream.id)


@pytest.mark.parametrize("way", ["close", "reset"])
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
def test_who_leaves_the_proxy_has_left_the_server(
    four_slots: ForkedServer, proxied: Proxied, phase: str, streaming: bool, way: str
) -> None:
    fillers = [Http1(four_slots, completion([SHORT] * 4, 4000))] if phase == "queued" else []
    for filler in fillers:
        four_slots.wait_state(filler.id, "decode")
    known = four_slots.requests().keys()
    with nullcontext() if phase == "decode" else four_slots.held():  # it stays in this phase
        ids = LONG if phase == "prefill" else SHORT
        stream = Http1(proxied, completion(ids, 4000, stream=streaming, cache_prompt=False))
        (request_id,) = wait_for(lambda: four_slots.requests().keys() - known, "the request")
        four_slots.wait_state(request_id, phase)
        stream.close() if way == "close" else stream.reset()
        (receipt,) = wait_for(lambda: four_slots.receipts(request_id), "the receipt") if phase == "queued" else [None]
    if receipt is None:
        (receipt,) = four_slots.wait_ended(request_id)
    assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", phase)
    assert (receipt["layers_after_cancel"] or 0) <= 1
    for filler in fillers:
        filler.close()
    four_slots.wait_idle()
