"""Control across two workers: what is listed, and what is ended, at whichever worker it is."""

from __future__ import annotations

import signal
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Protocol

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


class Begin(Protocol):
    """Begins a stream at that worker, which a front door is asked for; it says `cede` of its own fate."""

    def __call__(self, door: str, worker: Worker, headers: Json | None = None, **cede: str) -> Stream:
        """Return it, once some of it has come."""


@pytest.fixture
def begin() -> Iterator[Begin]:
    """The streams are closed with the test, so that one that fails says no more than why."""
    with ExitStack() as streams:

        def begin_one(door: str, worker: Worker, headers: Json | None = None, **cede: str) -> Stream:
            return streams.enter_context(closing(begun(door, worker, headers, **cede)))

        yield begin_one


def told(cluster: Cluster, path: str, what: str = "data") -> list[Json]:
    """Return what all workers tell.  One that was too slow to answer is asked again."""

    def all_tell() -> Json | None:
        answer: Json = cluster.control.get(path)
        return None if answer["unreachable"] else answer

    answer = wait_for(all_tell, f"all workers to tell {path}")
    assert answer is not None
    listed: list[Json] = answer[what]
    return listed


def receipts_of(cluster: Cluster, request_id: str) -> list[Json]:
    """Return what all workers tell of the cancels of a request that has ended, or soon will."""
    return told(cluster, f"/v1/receipts?request_id={request_id}&wait=60")


def live(cluster: Cluster) -> set[str]:
    """The live requests of all workers."""
    return {one["id"] for one in told(cluster, "/v1/requests")}


def end(cluster: Cluster, path: str) -> tuple[int, Json]:
    """End requests.  Where a worker was too slow to say whether it has one, it is asked again."""
    answers: list[tuple[int, Json]] = []

    def is_said() -> bool:
        answers.append(cluster.control.ask("DELETE", path))
        return answers[-1][0] != 503

    wait_for(is_said, f"all workers to answer to the end of {path}")
    return answers[-1]


def reasons(receipts: list[Json]) -> list[str]:
    """Return why they were cancelled."""
    return [receipt["reason"] for receipt in receipts]


def test_what_all_workers_do_is_seen_at_one_address(cluster: Cluster, begin: Begin) -> None:
    workers = sorted(cluster.workers.values(), key=lambda worker: worker.worker_id)
    streams = [begin(cluster.url, worker) for worker in workers]
    where = [(stream.id, worker.worker_id) for stream, worker in zip(streams, workers, strict=True)]
    assert [(one["id"], one["worker"]) for one in told(cluster, "/v1/requests")] == where
    slots = told(cluster, "/slots", "slots")
    assert [(slot["request_id"], slot["worker"]) for slot in slots if slot["request_id"]] == where
    statistics = told(cluster, "/v1/statistics")
    assert [(one["worker"], one["live_requests"]) for one in statistics] == [(w.worker_id, 1) for w in workers]
    for stream in streams:
        stream.close()
    for request_id, worker_id in where:
        (receipt,) = receipts_of(cluster, f"chatcmpl-{request_id}")
        assert (receipt["reason"], receipt["worker"]) == ("client_disconnect", worker_id)


def test_a_request_is_ended_at_the_worker_that_has_it(cluster: Cluster, begin: Begin) -> None:
    first, second = (begin(cluster.url, worker) for worker in cluster.workers.values())
    status, answer = end(cluster, f"/v1/requests/chatcmpl-{second.id}")
    assert (status, answer["cancelled"]) == (200, True)
    second.read()
    assert reasons(receipts_of(cluster, second.id)) == ["operator"]
    assert live(cluster) == {first.id}
    assert end(cluster, f"/v1/requests/{second.id}")[0] == 404
    first.close()


def test_a_cancel_reaches_no_other_request_of_the_same_id(cluster: Cluster, discovery: Path, begin: Begin) -> None:
    with another_front_door(discovery) as door:
        first, second = cluster.workers.values()
        own_id = {"x-dynamo-request-id": SAME}
        check_only_one_is_ended(
            cluster, first, second, [begin(cluster.url, first, own_id), begin(door, second, own_id)]
        )


def check_only_one_is_ended(cluster: Cluster, first: Worker, second: Worker, streams: list[Stream]) -> None:
    """Check that of two streams of one id only the one of the second worker is ended, and only if that is named."""
    status, answer = end(cluster, f"/v1/requests/{SAME}")
    assert (status, answer["error"]["code"]) == (400, "ambiguous_request")
    assert [SAME in worker.requests() for worker in (first, second)] == [True, True]
    status, answer = end(cluster, f"/v1/requests/{SAME}?worker={second.worker_id}")
    assert (status, answer["worker"]) == (200, second.worker_id)
    streams[1].read()
    assert SAME in first.requests()
    assert first.receipts(SAME) == []
    streams[0].close()


def test_a_group_is_ended_at_all_workers(cluster: Cluster, begin: Begin) -> None:
    first, second = cluster.workers.values()
    streams = [begin(cluster.url, first, group="agent/1"), begin(cluster.url, second, group="agent/2")]
    other = begin(cluster.url, second, group="agents")
    names = [group["name"] for group in told(cluster, "/v1/groups")]
    assert sorted(names) == ["agent/1", "agent/2", "agents"]
    status, answer = cluster.control.ask("DELETE", "/v1/groups/agent")
    assert (status, sorted(answer["cancelled"])) == (200, sorted(stream.id for stream in streams))
    for stream in streams:
        stream.read()
        assert reasons(receipts_of(cluster, stream.id)) == ["group"]
    assert live(cluster) == {other.id}
    other.close()


def test_a_successor_ends_the_one_before_wherever_that_is(cluster: Cluster, begin: Begin) -> None:
    first, second = cluster.workers.values()
    before = begin(cluster.url, first, supersede="editor-1")
    other = begin(cluster.url, first, supersede="editor-2")
    after = begin(cluster.url, second, supersede="editor-1")
    before.read()
    assert reasons(receipts_of(cluster, before.id)) == ["superseded"]
    assert live(cluster) == {other.id, after.id}
    other.close()
    after.close()


def test_what_is_about_one_worker_alone_is_refused(cluster: Cluster) -> None:
    status, answer = cluster.ask(chat("def f", 3, nvext={"annotations": ['cede:{"first_wins": true, "group": "g"}']}))
    assert status == 400
    assert "first_wins" in answer["message"]


def answered_by_others(cluster: Cluster, silent: Worker) -> list[Json] | None:
    """The live requests, if the silent worker is the only one that did not answer in time."""
    answer = cluster.control.get("/v1/requests")
    assert silent.worker_id in answer["unreachable"]
    listed: list[Json] = answer["data"]
    return listed if answer["unreachable"] == [silent.worker_id] else None


def test_a_worker_that_does_not_answer_is_named(cluster: Cluster, begin: Begin) -> None:
    frozen, lively = cluster.workers.values()
    stream = begin(cluster.url, lively)
    frozen.kill(signal.SIGSTOP)
    try:
        listed = wait_for(partial(answered_by_others, cluster, frozen), "the other worker to answer")
        assert listed is not None
        assert [one["id"] for one in listed] == [stream.id]
        # First, while it lasts: each question takes as long as a worker is waited for.
        assert cluster.control.ask("DELETE", f"/v1/requests/{stream.id}")[0] == 200
        assert cluster.control.ask("DELETE", f"/v1/requests/{SAME}")[0] == 503
    finally:
        frozen.kill()
    stream.read()
    wait_for(lambda: cluster.control.get("/v1/requests")["unreachable"] == [], "the worker to leave discovery")
