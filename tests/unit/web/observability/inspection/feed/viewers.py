"""Viewers of a feed, without HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from web.observability.inspection.feed.feed import Feed
from web.observability.inspection.feed.frames import FeedStream
from web.process.access.api_keys import ApiKey

Json = dict[str, Any]

WRITE_BYTES = 4096
ADMIN, ANN, BEN = ApiKey(b"0", "admin", admin=True), ApiKey(b"1", "ann"), ApiKey(b"2", "ben")


class Frame(NamedTuple):
    """A server-sent event of the feed."""

    kind: str
    data: Json

    def of(self, kind: str) -> list[Json]:
        """The events of a type."""
        return [event for event in self.data["events"] if event["type"] == kind]


@contextmanager
def watching(
    feed: Feed, key: ApiKey | None = None, *, keep_alive: float = 1e3, follow: bool = True
) -> Iterator[FeedStream]:
    """One who watches."""
    with feed.watched() as viewer, feed.engine.unread.backlog("a viewer", gathering=True) as backlog:
        yield FeedStream(
            feed, viewer, key, keep_alive=keep_alive, backlog=backlog, write_bytes=WRITE_BYTES, follow=follow
        )


async def read_frame(stream: FeedStream) -> Frame:
    """The next frame; raises StopAsyncIteration at the end."""
    text = b""
    while not text.endswith(b"\n\n"):
        page = await anext(stream)
        assert 0 < len(page) <= WRITE_BYTES
        text += page
    kind, data = text.decode().split("\n\n")[0].removeprefix("event: ").split("\ndata: ")
    return Frame(kind, json.loads(data))


async def read_until(stream: FeedStream, kind: str) -> tuple[list[Json], Json]:
    """All events up to the frame with the first one of a type; and that event."""
    events: list[Json] = []
    while True:
        frame = await read_frame(stream)
        events += frame.data["events"]
        if found := frame.of(kind):
            return events, found[0]
