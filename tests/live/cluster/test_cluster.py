"""A cluster of two workers: a chat, a hang-up, the death of a worker, of the front door, and a drain."""

from __future__ import annotations

import http.client
import json
import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.live.cluster.clusters import MODEL, Cluster, chat
from tests.live.server import PATIENCE, wait_for
from web.commands.client.connection import open_connection
from web.commands.top.sample import take_sample

if TYPE_CHECKING:
    from tests.live.cluster.clusters import Stream, Worker
    from tests.live.server import Json

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

LONG = "def f(x):\n    return x\n" * 120
TOKENS = 500
ENDLESS = 3000  # of an answer that nobody reads to its end


def begun(cluster: Cluster, body: Json) -> tuple[str, Stream, Worker]:
    """Return all that is answered where nothing happens, and the stream of the same once some of it was read.

    Its worker is looked for before that: later the answer may be whole, and nobody has the request any more.
    """
    alone = cluster.stream(body).read()
    stream = cluster.stream(body)
    worker = cluster.serving()
    stream.read(40)
    return alone, stream, worker


def check_went_on(stream: Stream, alone: str) -> None:
    """Check that a stream goes on to its end with what is answered where nothing happens."""
    assert stream.read() == alone
    assert (stream.finish_reason, stream.error) == ("length", None)


def test_a_streaming_chat_is_answered_and_counted(cluster: Cluster) -> None:
    stream = cluster.stream(chat("def f", 12, stream_options={"include_usage": True}))
    stream.read()
    assert (stream.finish_reason, stream.error) == ("length", None)
    status, answer = cluster.ask(chat("def f", 12))
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == stream.text
    assert answer["usage"]["completion_tokens"] == 12


async def test_what_is_asked_as_of_a_server_alone_is_answered_or_sent_to_where_it_is(cluster: Cluster) -> None:
    connection = http.client.HTTPConnection(*cluster.address, timeout=PATIENCE)
    with closing(connection):
        headers = {"content-type": "application/x-www-form-urlencoded"}  # as curl says, and no model
        connection.request("POST", "/v1/completions", '{"prompt": "import os", "max_tokens": 2}', headers)
        assert json.load(connection.getresponse())["usage"]["completion_tokens"] == 2
        connection.request("GET", "/v1/receipts?limit=1")
        response = connection.getresponse()
        assert (response.status, response.read()[:9]) == (307, b"A cluster")
    async with open_connection(cluster.url, None) as client:
        assert (await client.receipt("nobody"), (await client.model())["id"]) == (None, MODEL)
        sample = await take_sample(client, 0.0, 0.0)
    assert set(sample.engines) == {slot["worker"] for slot in sample.slots} == set(cluster.workers)


def test_what_a_rebound_name_or_a_page_of_another_origin_asks_is_refused(cluster: Cluster) -> None:
    connection = http.client.HTTPConnection(*cluster.address, timeout=PATIENCE)
    with closing(connection):
        for headers, status in (
            ({}, 200),
            ({"host": "rebound.example"}, 403),
            ({"origin": "http://page.example"}, 403),
            ({"host": "localhost"}, 200),
        ):
            connection.request("GET", "/v1/models", headers=headers)
            response = connection.getresponse()
            response.read()
            assert response.status == status


def test_what_is_wrong_with_a_request_is_said_by_the_worker(cluster: Cluster) -> None:
    status, answer = cluster.ask(
        chat("def f", 12, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 7}}})
    )
    assert status == 400
    assert "schema" in answer["message"]


def test_a_hang_up_in_the_prefill_leaves_its_receipt_on_the_worker(cluster: Cluster) -> None:
    _, receipt = cluster.hang_up_in_prompt(LONG)
    assert receipt["reason"] == "client_disconnect"
    assert receipt["layers_after_cancel"] <= 2
    for worker in cluster.living():
        worker.wait_idle()


PENALTIES = {"presence_penalty": 0.7, "frequency_penalty": 0.4}


@pytest.mark.parametrize(
    "fields",
    [{}, PENALTIES | {"temperature": 1.0, "seed": 7}],
    ids=["greedy", "seeded with penalties"],
)
def test_a_stream_outlives_the_worker_that_makes_it(cluster: Cluster, fields: dict[str, float]) -> None:
    alone, stream, worker = begun(cluster, chat("class Tree:", TOKENS, **fields))
    worker.kill()
    check_went_on(stream, alone)


def test_a_stream_outlives_a_worker_that_says_nothing_and_that_is_found_again_when_it_goes_on(cluster: Cluster) -> None:
    alone, stream, worker = begun(cluster, chat("class Tree:", TOKENS))
    worker.kill(signal.SIGSTOP)
    try:
        check_went_on(stream, alone)
        wait_for(lambda: worker.worker_id not in cluster.known(), "the worker to leave discovery")
    finally:
        worker.kill(signal.SIGCONT)
    wait_for(lambda: worker.worker_id in cluster.known(), "the worker to be found again")
    assert worker.lives


def test_a_request_with_two_choices_ends_with_an_error_that_invites_to_try_again(cluster: Cluster) -> None:
    stream = cluster.stream(chat("class Tree:", ENDLESS, n=2, temperature=1.0, seed=7))
    stream.read(40)
    cluster.serving().kill()
    stream.read()
    assert stream.error is not None
    assert (stream.error["code"], stream.error["type"]) == (503, "service_unavailable")


def test_a_worker_that_is_told_to_stop_moves_what_it_cannot_finish(cluster: Cluster) -> None:
    alone, stream, worker = begun(cluster, chat("import os", TOKENS))
    worker.kill(signal.SIGTERM)
    check_went_on(stream, alone)
    wait_for(lambda: not worker.lives, "the worker to end")


def test_the_requests_of_a_front_door_that_dies_are_cancelled(cluster: Cluster) -> None:
    stream = cluster.stream(chat("class Tree:", ENDLESS))
    stream.read(5)
    worker = cluster.serving()
    os.kill(front_door_of(cluster), signal.SIGKILL)
    stream.close()  # the kernel has closed its other end
    (receipt,) = worker.wait_ended(stream.id)
    assert receipt["reason"] == "client_disconnect"
    cluster.url = ""
    cluster.wait_open()


def front_door_of(cluster: Cluster) -> int:
    """The process that is neither the parent nor a worker."""
    children = {child.pid for child in psutil.Process(cluster.process.pid).children()}
    door: int
    (door,) = children - {worker.pid for worker in cluster.workers.values()}
    return door


def test_all_end_when_the_cluster_is_told_to() -> None:
    with Cluster("--grace", "3600", workers=1) as cluster:
        stream = cluster.stream(chat("class Tree:", 50))
        stream.read(1)
        (worker,) = cluster.workers.values()
        cluster.process.send_signal(signal.SIGINT)
        stream.read()
        assert (stream.finish_reason, stream.error) == ("length", None)
        assert cluster.process.wait(PATIENCE) == 0
        assert not worker.lives
