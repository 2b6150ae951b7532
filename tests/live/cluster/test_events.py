"""The feed of all workers at the control address, with two of them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import Cluster, begun
from tests.live.feed import asked, frames
from tests.live.server import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.live.server import Json

    Told = tuple[str, Json]

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")


def read_until(told: Iterator[Told], is_last: Callable[[str, Json], bool]) -> list[Told]:
    """Return what is told, up to the first event of which that is true."""
    read: list[Told] = []
    for kind, value in told:
        read.append((kind, value))
        if is_last(kind, value):
            return read
    raise AssertionError(f"the stream has ended: {[kind for kind, _ in read]}")


def read_all_known(told: Iterator[Told], cluster: Cluster) -> None:
    """Read until each worker has said how it stands."""
    unknown = set(cluster.workers)

    def is_last(kind: str, value: Json) -> bool:
        if kind == "snapshot":
            unknown.discard(value["worker"])
        return not unknown

    read_until(told, is_last)


def test_what_two_workers_do_is_told_in_one_stream(cluster: Cluster) -> None:
    with asked(cluster.control, "GET", "/v1/events") as feed:
        told = frames(feed)
        read_all_known(told, cluster)
        streams = {name: begun(cluster.url, worker) for name, worker in cluster.workers.items()}
        ended: dict[str, Json] = {}

        def is_last(kind: str, value: Json) -> bool:
            for event in value.get("events", ()):
                if event["type"] == "receipt":
                    ended[event["request_id"]] = event | {"worker": value["worker"]}
            return len(ended) == len(streams)

        for stream in streams.values():
            stream.close()
        read = read_until(told, is_last)
        assert {value["worker"] for kind, value in read if kind == "frame"} == set(cluster.workers)
        for name, stream in streams.items():
            (receipt,) = cluster.workers[name].receipts(stream.id)
            assert ended[stream.id]["worker"] == name
            assert {key: ended[stream.id][key] for key in receipt} == receipt


def test_a_reader_that_goes_away_leaves_nothing_running(cluster: Cluster) -> None:
    def tasks() -> list[int]:
        return [worker.get("/v1/statistics")["tasks"] for worker in cluster.workers.values()]

    def comes_and_goes() -> bool:
        before = tasks()
        with asked(cluster.control, "GET", "/v1/events") as feed:
            read_all_known(frames(feed), cluster)
            if not all(now > then for now, then in zip(tasks(), before, strict=True)):
                return False  # what another test began was still there before
        wait_for(lambda: all(now <= then for now, then in zip(tasks(), before, strict=True)), "them to tell nobody")
        return True

    wait_for(comes_and_goes, "a reader to be seen in each worker's tasks")


def test_how_all_stand_is_told_once(cluster: Cluster) -> None:
    with asked(cluster.control, "GET", "/v1/events?follow=false") as feed:
        read = list(frames(feed))
    assert sorted((kind, value["worker"]) for kind, value in read) == [
        ("snapshot", name) for name in sorted(cluster.workers)
    ]
    assert all(len(value["state"]["slots"]) == 2 for _, value in read)


def test_a_worker_that_dies_leaves_and_another_joins_while_the_rest_goes_on(cluster: Cluster) -> None:
    victim, lively = cluster.workers.values()
    with asked(cluster.control, "GET", "/v1/events") as feed:
        told = frames(feed)
        read_all_known(told, cluster)
        victim.kill()
        read = read_until(told, lambda kind, value: kind == "snapshot")  # of the one in its place
        assert read[-1][1]["worker"] not in (victim.worker_id, lively.worker_id)
        stream = begun(cluster.url, lively)
        read_until(told, lambda kind, value: value["worker"] == lively.worker_id and kind == "frame")
        stream.close()
        standings = [value for kind, value in read if kind == "worker" and value["worker"] == victim.worker_id]
        if standings[-1]["standing"] != "left":
            read_until(told, lambda kind, value: value == {"worker": victim.worker_id, "standing": "left"})
    cluster.wait_whole()


def test_the_stream_ends_in_order_and_keeps_nobody_from_the_end() -> None:
    with Cluster() as own:
        own.wait_whole()
        with asked(own.control, "GET", "/v1/events") as feed:
            told = frames(feed)
            read_all_known(told, own)
            own.process.send_signal(signal.SIGTERM)
            assert [kind for kind, _ in told][-1] == "end"
        assert own.process.wait(PATIENCE) == 0
