"""The route of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import request as query
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import RequestError
from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.bodies.paged_response import response_backlog
from web.http.asgi import current_request
from web.observability.inspection.feed.stream import FeedStream

if TYPE_CHECKING:
    from web.http.asgi import ScopedApp
    from web.observability.inspection.feed.feed import Feed


def add_routes(app: ScopedApp, feed: Feed, write_bytes: int, keep_alive: float) -> None:
    """Add it to an application.

    Args:
        app: to be extended.
        feed: to be told.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """

    @app.get("/v1/events")
    async def watch() -> Response:
        http_request, follow = current_request(), follows()
        stream = FeedStream(
            feed,
            http_request.resources.enter_context(feed.watched()),
            http_request.key,
            keep_alive=keep_alive,
            backlog=response_backlog(feed.engine.unread),
            write_bytes=write_bytes,
            follow=follow,
        )
        return Response(stream, headers=HEADERS, content_type=CONTENT_TYPE)


def follows() -> bool:
    """Return whether the current request wants more than the first frame.  Raises RequestError."""
    given = query.args.get("follow", "true")
    if given not in ("true", "false"):
        raise RequestError("Invalid 'follow': it should be true or false.", param="follow")
    return given == "true"
