"""A request that meets one death after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("dynamo._core", reason="cede[cluster] is not installed")

DEATHS = 2
PIECES = 10  # of text, from each worker


def test_a_stream_outlives_one_worker_after_the_other(tmp_path: Path) -> None:
    body = chat("class Tree:", 1500)
    with Parts(tmp_path, workers=DEATHS + 1) as parts:
        alone = parts.stream(body).read()
        stream = parts.stream(body)
        for _ in range(DEATHS):
            worker = parts.serving()
            stream.read(stream.pieces + PIECES)
            assert stream.error is None
            worker.kill()
        assert stream.read() == alone
        assert (stream.finish_reason, stream.error) == ("length", None)
