"""Settings of Dynamo by variables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from web.cluster.settings import ADDRESSES, BEAT_SECONDS, LOOPBACK, SILENCE_SECONDS, discovery_folder, tell_dynamo
from web.process.options import Cluster


def test_processes_that_find_each_other_by_files_listen_on_loopback_alone(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    tell_dynamo(Cluster(discovery_dir=tmp_path), environment)
    assert environment["DYN_FILE_KV"] == str(tmp_path)
    assert {environment[name] for name in ADDRESSES} == {LOOPBACK}
    assert discovery_folder(environment) == tmp_path


def test_a_folder_that_nobody_named_is_dynamos_own() -> None:
    environment: dict[str, str] = {}
    tell_dynamo(Cluster(), environment)
    assert discovery_folder(environment) == Path(tempfile.gettempdir(), "dynamo_store_kv")


def test_with_etcd_the_addresses_are_dynamos_to_choose() -> None:
    environment: dict[str, str] = {}
    tell_dynamo(Cluster(discovery="etcd"), environment)
    assert not environment.keys() & set(ADDRESSES)


def test_etcd_may_be_away_for_a_minute() -> None:
    environment: dict[str, str] = {}
    tell_dynamo(Cluster(discovery="etcd"), environment)
    assert float(environment["ETCD_LEASE_TTL"]) > 60


def test_what_was_set_stays() -> None:
    environment = dict.fromkeys([*ADDRESSES, "DYN_LOG", "DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS"], "x")
    tell_dynamo(Cluster(), environment)
    assert {environment[name] for name in ADDRESSES} == {"x"}
    assert environment["DYN_LOG"] == environment["DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS"] == "x"


def test_a_stream_beats_several_times_before_it_is_taken_for_dead() -> None:
    assert 3 * BEAT_SECONDS < SILENCE_SECONDS
