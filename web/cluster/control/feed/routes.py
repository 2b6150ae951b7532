"""The route of all workers' feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.cluster.control.feed.follower import followed
from web.cluster.control.feed.stream import ClusterStream
from web.http.asgi import current_request
from web.observability.inspection.feed.routes import follows

if TYPE_CHECKING:
    import trio

    from web.cluster.control.feed.follower import ToldOf
    from web.http.asgi import ScopedApp

KEEP_ALIVE_SECONDS = 10.0
"""Of silence, after which a stream says that it is alive."""


def add_routes(app: ScopedApp, workers: ToldOf, stop: trio.Event, write_bytes: int) -> None:
    """Add it to an application.

    Args:
        app: to be extended.
        workers: all of them.
        stop: whoever serves is to end, and so are all streams.
        write_bytes: of one write to a connection.
    """

    @app.get("/v1/events")
    async def watch() -> Response:
        scope = followed(workers, stop, follow=follows())
        untaken = await current_request().resources.enter_async_context(scope)
        stream = ClusterStream(untaken, KEEP_ALIVE_SECONDS, write_bytes, stop)
        return Response(stream, headers=HEADERS, content_type=CONTENT_TYPE)
