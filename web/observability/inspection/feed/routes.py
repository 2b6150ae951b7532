"""The route of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import request as query
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import RequestError
from web.bodies.event_stream import CONTENT_TYPE, HEADERS
from web.bodies.responses import response_backlog
from web.http.asgi import current_request
from web.observability.inspection.feed.answers import Frame
from web.observability.inspection.feed.frames import FeedStream
from web.openapi.operations import EVENTS, LISTS, Parameter, Reply

if TYPE_CHECKING:
    from web.observability.inspection.feed.feed import Feed
    from web.openapi.operations import Api


def add_routes(api: Api, feed: Feed, write_bytes: int, keep_alive: float) -> None:
    """Add it to an API.

    Args:
        api: to be extended.
        feed: to be told.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
    """

    @api.get(
        "/v1/events",
        {200: Reply("A stream that ends when the server does.", {EVENTS: Frame})},
        LISTS,
        parameters=(Parameter("follow", "`false` for the first frame alone.", {"enum": ["true", "false"]}),),
        endless=True,
    )
    async def watch() -> Response:
        """Follow what the engine does: server-sent events `snapshot`, `frame`, `lagged` and `end`."""
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
