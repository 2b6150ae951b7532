"""The feed of all workers over HTTP."""

from __future__ import annotations

import json
from typing import Any

import trio
import trio.testing

from tests.unit.web.cluster.control.feed.workers import A, B, TellingWorkers, frame, snapshot
from web.cluster.control.feed.follower import SNAPSHOT_SECONDS
from web.cluster.control.feed.routes import KEEP_ALIVE_SECONDS, ClusterStream
from web.cluster.control.feed.untaken import Standing, Untaken
from web.cluster.control.routes import control_app
from web.http.browser_policy import BrowserPolicy
from web.observability.inspection.feed.frames import END, KEEP_ALIVE


async def get(workers: TellingWorkers, path: str, stop: trio.Event | None = None) -> tuple[int, str, str]:
    client: Any = control_app(workers, trio.Event() if stop is None else stop, BrowserPolicy()).test_client()
    response = await client.get(path)
    return response.status_code, response.headers["content-type"], await response.get_data(as_text=True)


def events(text: str) -> list[tuple[str, Any]]:
    """The server-sent events."""
    found = [block.removeprefix("event: ").split("\ndata: ") for block in text.removesuffix("\n\n").split("\n\n")]
    return [(kind, json.loads(data)) for kind, data in found]


async def test_how_all_stand_is_one_answer(autojump_clock: trio.testing.MockClock) -> None:
    workers = TellingWorkers(A, B)
    workers.tell(A, snapshot())
    status, media_type, text = await get(workers, "/v1/events?follow=false")
    assert (status, media_type) == (200, "text/event-stream; charset=utf-8")
    assert events(text) == [
        ("snapshot", {"worker": A, **snapshot().value}),
        ("worker", {"worker": B, "standing": "silent"}),
    ]
    assert trio.current_time() <= SNAPSHOT_SECONDS + 0.1
    assert workers.open == {A: 0, B: 0}


async def test_of_no_workers_nothing_is_told() -> None:
    assert (await get(TellingWorkers(), "/v1/events?follow=false"))[2] == ""
    assert (await get(TellingWorkers(), "/v1/events?follow=maybe"))[0] == 400


async def test_the_stream_ends_with_the_server(autojump_clock: trio.testing.MockClock) -> None:
    workers, stop = TellingWorkers(A), trio.Event()
    workers.tell(A, frame(1))

    async def end() -> None:
        await trio.sleep(5)
        stop.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        _, _, text = await get(workers, "/v1/events", stop)
    assert [kind for kind, _ in events(text)] == ["worker", "frame", "end"]
    assert workers.open == {A: 0}


async def test_what_happens_goes_out_in_small_writes_and_silence_is_a_sign_of_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    untaken, stop = Untaken(), trio.Event()
    stream = ClusterStream(untaken, KEEP_ALIVE_SECONDS, 16, stop)
    assert await anext(stream) == KEEP_ALIVE
    assert trio.current_time() == KEEP_ALIVE_SECONDS
    untaken.say(A, Standing.JOINED)
    stop.set()
    untaken.end()
    pages = [page async for page in stream]
    assert all(len(page) <= 16 for page in pages)
    assert b"".join(pages).endswith(END)
