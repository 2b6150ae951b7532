"""Hostile requests beside two neighbours, on a real server; at its end the engine's integrity is looked at."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.hostile.requests import HostileRequest
from tests.live.fork_server import ForkedServer
from tests.live.hostile.crowd import Crowd
from tests.live.hostile.harass import FLAGS, again, harass, mixed, replay


def test_what_a_fault_names_is_drawn_again() -> None:
    for request in mixed(seed=3, first=0, end=60, size=256 * 2**10):
        assert again(request.what) == request


def test_hostile_requests_harm_nobody(tmp_path: Path) -> None:
    server = ForkedServer(tmp_path, *FLAGS)
    try:
        report = harass(server, requests=150, seed=0, size=50_000)
        report.check()
        assert not replay(server, "body 1").faults
        feed = HostileRequest("the feed", b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert trio.run(Crowd(server, []).send, [feed]).faults == [], "it ends when its reader does"
    finally:
        server.end()
    assert server.wait_exit() == 0
