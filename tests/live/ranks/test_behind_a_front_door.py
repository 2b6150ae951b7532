"""Workers of two ranks behind a front door: who loses a rank ends, and what it had goes on at the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts
from tests.live.ranks.processes import MOST_LAYERS, TWO, ranks_of

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

LONG = "def f(x):\n    return x\n" * 120


def test_a_stream_outlives_a_rank_that_is_killed(tmp_path: Path) -> None:
    bodies = [chat("class Tree:", 120), chat("import os", 120, temperature=1.0, seed=7)]
    with Parts(tmp_path, *TWO) as parts:
        alone = [parts.stream(body).read() for body in bodies]
        streams = [parts.stream(body) for body in bodies]
        worker = parts.serving()
        for stream in streams:
            stream.read(10)
        (rank,) = ranks_of(worker)
        rank.kill()
        assert [stream.read() for stream in streams] == alone
        assert {(stream.finish_reason, stream.error) for stream in streams} == {("length", None)}
        assert worker.wait_exit() == 1
        assert "rank 1 of 2 has ended with status -9" in worker.log()
        parts.wait_whole()
        assert len(parts.living()) == 1


def test_a_hang_up_at_the_front_door_stops_both_ranks_of_a_worker(tmp_path: Path) -> None:
    with Parts(tmp_path, *TWO, workers=1) as parts:
        _, receipt = parts.hang_up_in_prompt(LONG)
        assert receipt["reason"] == "client_disconnect"
        assert receipt["layers_after_cancel"] <= MOST_LAYERS
        assert parts.ask(chat("def f", 3))[0] == 200
