"""Workers that all stand still for so long that discovery forgets them, as where the machine slept."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts
from tests.live.server import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

KNOWN = "entries of this worker that discovery has: 6"  # three endpoints, a card, KV events and their source


def entries(folder: Path, workers: set[str]) -> dict[str, bytes]:
    """Return what is in discovery by files, of workers and of their KV."""
    found, ids = {}, tuple(workers)
    for path in (folder / "discovery").rglob("*"):
        if path.is_file() and (path.name.endswith(ids) or "kv%2Devents" in path.name):
            with suppress(FileNotFoundError):  # it has just been removed
                found[str(path)] = path.read_bytes()
    return found


def test_workers_that_slept_are_found_again_with_all_that_they_had_written(tmp_path: Path) -> None:
    body = chat("class Tree:", 40)
    with Parts(tmp_path) as parts:
        before = parts.stream(body).read()
        ids = {worker.worker_id for worker in parts.workers}
        for worker in parts.workers:
            worker.wait_log(KNOWN)
        written = entries(tmp_path, ids)
        for worker in parts.workers:
            worker.signal(signal.SIGSTOP)
        try:
            wait_for(lambda: not entries(tmp_path, ids), "discovery to forget the workers")
        finally:
            for worker in parts.workers:
                worker.signal(signal.SIGCONT)
        parts.wait_whole()
        wait_for(lambda: entries(tmp_path, ids) == written, "all to be written again")
        assert {worker.worker_id for worker in parts.living()} == ids
        assert parts.stream(body).read() == before
        wait_for(lambda: parts.forgotten() >= len(ids), "all to say so")
