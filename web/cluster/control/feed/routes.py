"""The route of all workers' feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.cluster.control.answers import FrameOf
from web.cluster.control.feed.follower import followed
from web.cluster.control.feed.stream import ClusterStream
from web.http.asgi import current_request
from web.observability.inspection.feed.routes import follows
from web.openapi.operations import EVENTS, Parameter, Reply

if TYPE_CHECKING:
    import trio

    from web.cluster.control.feed.follower import ToldOf
    from web.openapi.operations import Api

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
