"""The route of all workers' feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers import TrioResponse as Response

from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.bodies.page_buffer import PageBuffer
from web.bodies.responses import StreamBody
from web.cluster.control.answers import FrameOf
from web.cluster.control.feed.follower import followed
from web.http.asgi import current_request
from web.observability.inspection.feed.frames import END, KEEP_ALIVE, Frame, sse_of
from web.observability.inspection.feed.routes import follows
from web.openapi.operations import EVENTS, Parameter, Reply

if TYPE_CHECKING:
    from web.cluster.control.feed.follower import ToldOf
    from web.cluster.control.feed.untaken import Untaken
    from web.openapi.operations import Api


class ClusterStream(StreamBody):
    """The body of the response.

    Args:
        untaken: what the reader is to be told.
        keep_alive: seconds of silence after which the stream says that it is alive.
        write_bytes: of one write.
        stop: whoever serves is to end, and says so.
    """

    def __init__(self, untaken: Untaken, keep_alive: float, write_bytes: int, stop: trio.Event) -> None:
        self._untaken = untaken
        self._keep_alive = keep_alive
        self._unsent = PageBuffer(write_bytes)
        self._stop = stop
        self._ended = False

    async def __anext__(self) -> bytes:
        """Return what to write next; a sign of life if nothing happens for long."""
        await trio.lowlevel.checkpoint()
        if not self._unsent:
            if self._ended:
                raise StopAsyncIteration
            with trio.move_on_after(self._keep_alive) as patience:
                await self._untaken.wait()
            if patience.cancelled_caught:
                return KEEP_ALIVE
            self._make()
        if not self._unsent:  # nobody had anything to tell
            raise StopAsyncIteration
        return self._unsent.take()

    def _make(self) -> None:
        if self._untaken.has_news:
            for kind, value in self._untaken.take():
                self._unsent.write(sse_of(Frame(kind, value)))
        if self._untaken.is_over and not self._untaken.has_news:
            self._ended = True
            if self._stop.is_set():
                self._unsent.write(END)


KEEP_ALIVE_SECONDS = 10.0
"""Of silence, after which a stream says that it is alive."""


def add_routes(api: Api, workers: ToldOf, stop: trio.Event, write_bytes: int) -> None:
    """Add it to an API.

    Args:
        api: to be extended.
        workers: all of them.
        stop: whoever serves is to end, and so are all streams.
        write_bytes: of one write to a connection.
    """

    @api.get(
        "/v1/events",
        {200: Reply("A stream that ends when the server does.", {EVENTS: FrameOf})},
        parameters=(
            Parameter("follow", "`false` for the first frame of each worker alone.", {"enum": ["true", "false"]}),
        ),
        endless=True,
    )
    async def watch() -> Response:
        """Follow what all workers do: server-sent events `snapshot`, `frame`, `lagged`, `worker` and `end`."""
        scope = followed(workers, stop, follow=follows())
        untaken = await current_request().resources.enter_async_context(scope)
        stream = ClusterStream(untaken, KEEP_ALIVE_SECONDS, write_bytes, stop)
        return Response(stream, headers=HEADERS, content_type=CONTENT_TYPE)
