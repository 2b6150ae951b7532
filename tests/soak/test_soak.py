"""A few seconds of `tests.soak` on both protocols."""

from __future__ import annotations

from pathlib import Path

from tests.live.fork_server import ForkedServer
from tests.soak.soak import FLAGS, flags_of, soak

MEMORY_BOUND = 160 * 2**20  # bytes; a warm-up of a second has not met the most that stalled responses take at a time


def test_nothing_is_left_and_nobody_notices(tmp_path: Path) -> None:
    server = ForkedServer(tmp_path, *FLAGS, *flags_of(None, tmp_path))
    try:
        report = soak(server, protocols=["http1", "http2"], clients=18, seconds=4, seed=1)
        report.check(MEMORY_BOUND)
        assert report.record.visits.total() >= 18
    finally:
        server.end()
    assert server.wait_exit() == 0
