"""The route of the feed, for the OpenAPI document."""

from __future__ import annotations

from web.observability.inspection.feed.answers import Frame
from web.openapi.operations import ANY_ROUTE, EVENTS, LISTS, Operation, Parameter, Reply

OPERATIONS = (
    Operation(
        "get",
        "/v1/events",
        "watch",
        "What the engine does, while it does it: server-sent events `snapshot`, `frame`, `lagged` and `end`",
        {200: Reply("A stream that ends when the server does.", {EVENTS: Frame})},
        parameters=(Parameter("follow", "`false` for the first frame alone.", {"enum": ["true", "false"]}),),
        errors=ANY_ROUTE | LISTS,
        endless=True,
    ),
)
