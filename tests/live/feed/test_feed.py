"""`GET /v1/events` of a real server: a hang-up is told from the grant to the receipt, and the stream ends in order."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.live.feed.reading import asked, frames
from tests.live.server import COMPLETIONS, Server, wait_for

if TYPE_CHECKING:
    from tests.live.server import Json

FOREVER = {"prompt": "import os", "max_tokens": -1, "ignore_eos": True, "stream": True}


def test_a_hang_up_is_told_to_a_viewer_and_the_viewer_outlives_nobody() -> None:
    with Server("--slots", "2") as server, asked(server, "GET", "/v1/events") as feed:
        told = frames(feed)
        kind, first = next(told)
        assert (kind, first["model"], first["events"]) == ("snapshot", "cede-embedded", [])
        with asked(server, "POST", COMPLETIONS, FOREVER) as victim:
            request_id = victim.headers["x-request-id"]
            victim.read(200)
        events: list[Json] = []
        while not any(event["type"] == "ended" for event in events):
            kind, frame = next(told)
            assert kind == "frame"
            events += [event for event in frame["events"] if event.get("request_id") == request_id]
        (told_receipt,) = [event for event in events if event["type"] == "receipt"]
        (receipt,) = server.receipts(request_id)
        assert {name: told_receipt[name] for name in receipt} == receipt
        assert [event["type"] for event in events if event["type"] not in ("stage", "verified", "departed")] == [
            *("queued", "granted", "cancelled", "receipt", "ended"),
        ]
        server.signal(signal.SIGTERM)
        assert [kind for kind, _ in told][-1] == "end"
        assert server.wait_exit() == 0


def test_a_viewer_that_hangs_up_is_gone() -> None:
    with Server("--slots", "2") as server:
        before = server.get("/v1/statistics")["tasks"]
        with asked(server, "GET", "/v1/events") as feed:
            next(frames(feed))
        wait_for(lambda: server.get("/v1/statistics")["tasks"] <= before, "the viewer's tasks to end")
