"""Workers and a front door that find each other in etcd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import Cluster, chat
from tests.live.cluster.etcd import etcd
from tests.live.server import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")


def test_with_discovery_by_etcd_chats_stream_and_outlive_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with etcd(tmp_path) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ETCD_LEASE_TTL", "10")  # seconds; or this would take longer

        def listed(worker_id: str) -> bool:
            return any(worker_id in key for key in store.keys())  # no mapping: it asks the store

        with Cluster("--discovery", "etcd") as cluster:
            cluster.wait_whole()
            assert all(listed(worker_id) for worker_id in cluster.workers)
            body = chat("class Tree:", 500)
            alone = cluster.stream(body).read()
            stream = cluster.stream(body)
            worker = cluster.serving()  # which later may have made all of it
            stream.read(40)
            worker.kill()
            assert stream.read() == alone
            assert (stream.finish_reason, stream.error) == ("length", None)
            wait_for(lambda: not listed(worker.worker_id), "the lease of the dead to end")
            cluster.wait_whole()
            assert all(listed(worker_id) for worker_id in cluster.workers)
        wait_for(lambda: not any(map(listed, cluster.workers)), "the workers to leave etcd")
