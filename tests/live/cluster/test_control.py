"""Control across two workers: what is listed, and what is ended, at whichever worker it is."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import Cluster, another_front_door, begun, chat
from tests.live.server import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.cluster.clusters import Stream, Worker
    from tests.live.server import Json

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

SAME = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("discovery")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Cluster]:
    with Cluster("--discovery-dir", str(folder)) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    running.wait_whole()
    return running


def reasons(receipts: list[Json]) -> list[str]:
    """Why they were cancelled."""
    return [receipt["reason"] for receipt in receipts]


def test_what_all_workers_do_is_seen_at_one_address(cluster: Cluster) -> None:
    workers = sorted(cluster.workers.values(), key=lambda worker: worker.worker_id)
    streams = [begun(cluster.url, worker) for worker in workers]
    where = [(stream.id, worker.worker_id) for stream, worker in zip(streams, workers, strict=True)]
    assert [(one["id"], one["worker"]) for one in cluster.control.get("/v1/requests")["data"]] == where
    slots = cluster.control.get("/slots")["slots"]
    assert [(slot["request_id"], slot["worker"]) for slot in slots if slot["request_id"]] == where
    statistics = cluster.control.get("/v1/statistics")["data"]
    assert [(one["worker"], one["live_requests"]) for one in statistics] == [(w.worker_id, 1) for w in workers]
    for stream in streams:
        stream.close()
    for request_id, worker_id in where:
        (receipt,) = cluster.control.get(f"/v1/receipts?request_id=chatcmpl-{request_id}&wait=60")["data"]
        assert (receipt["reason"], receipt["worker"]) == ("client_disconnect", worker_id)


def test_a_request_is_ended_at_the_worker_that_has_it(cluster: Cluster) -> None:
    first, second = (begun(cluster.url, worker) for worker in cluster.workers.values())
    status, answer = cluster.control.ask("DELETE", f"/v1/requests/chatcmpl-{second.id}")
    assert (status, answer["cancelled"]) == (200, True)
    second.read()
    assert reasons(cluster.control.receipts(second.id)) == ["operator"]
    assert set(cluster.control.requests()) == {first.id}
    assert cluster.control.ask("DELETE", f"/v1/requests/{second.id}")[0] == 404
    first.close()


def test_a_cancel_reaches_no_other_request_of_the_same_id(cluster: Cluster, folder: Path) -> None:
    with another_front_door(folder) as door:
        first, second = cluster.workers.values()
        own_id = {"x-dynamo-request-id": SAME}
        check_only_one_is_ended(
            cluster, first, second, [begun(cluster.url, first, own_id), begun(door, second, own_id)]
        )


def check_only_one_is_ended(cluster: Cluster, first: Worker, second: Worker, streams: list[Stream]) -> None:
    """Check that of two streams of one id only the one of the second worker is ended, and only if that is named."""
    status, answer = cluster.control.ask("DELETE", f"/v1/requests/{SAME}")
    assert (status, answer["error"]["code"]) == (400, "ambiguous_request")
    assert [SAME in worker.requests() for worker in (first, second)] == [True, True]
    status, answer = cluster.control.ask("DELETE", f"/v1/requests/{SAME}?worker={second.worker_id}")
    assert (status, answer["worker"]) == (200, second.worker_id)
    streams[1].read()
    assert SAME in first.requests()
    assert first.receipts(SAME) == []
    streams[0].close()


def test_a_group_is_ended_at_all_workers(cluster: Cluster) -> None:
    first, second = cluster.workers.values()
    streams = [begun(cluster.url, first, group="agent/1"), begun(cluster.url, second, group="agent/2")]
    other = begun(cluster.url, second, group="agents")
    names = [group["name"] for group in cluster.control.get("/v1/groups")["data"]]
    assert sorted(names) == ["agent/1", "agent/2", "agents"]
    status, answer = cluster.control.ask("DELETE", "/v1/groups/agent")
    assert (status, sorted(answer["cancelled"])) == (200, sorted(stream.id for stream in streams))
    for stream in streams:
        stream.read()
        assert reasons(cluster.control.receipts(stream.id)) == ["group"]
    assert set(cluster.control.requests()) == {other.id}
    other.close()


def test_a_successor_ends_the_one_before_wherever_that_is(cluster: Cluster) -> None:
    first, second = cluster.workers.values()
    before = begun(cluster.url, first, supersede="editor-1")
    other = begun(cluster.url, first, supersede="editor-2")
    after = begun(cluster.url, second, supersede="editor-1")
    before.read()
    assert reasons(cluster.control.wait_ended(before.id)) == ["superseded"]
    assert set(cluster.control.requests()) == {other.id, after.id}
    other.close()
    after.close()


def test_what_is_about_one_worker_alone_is_refused(cluster: Cluster) -> None:
    status, answer = cluster.ask(chat("def f", 3, nvext={"annotations": ['cede:{"first_wins": true, "group": "g"}']}))
    assert status == 400
    assert "first_wins" in answer["message"]


def test_a_worker_that_does_not_answer_is_named(cluster: Cluster) -> None:
    frozen, lively = cluster.workers.values()
    stream = begun(cluster.url, lively)
    frozen.kill(signal.SIGSTOP)
    try:
        listed = cluster.control.get("/v1/requests")
        assert (listed["unreachable"], [one["id"] for one in listed["data"]]) == ([frozen.worker_id], [stream.id])
        assert cluster.control.ask("DELETE", f"/v1/requests/{SAME}")[0] == 503
        assert cluster.control.ask("DELETE", f"/v1/requests/{stream.id}")[0] == 200
    finally:
        frozen.kill()
    stream.read()
    wait_for(lambda: cluster.control.get("/v1/requests")["unreachable"] == [], "the worker to leave discovery")
