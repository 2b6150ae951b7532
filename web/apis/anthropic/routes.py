"""The routes of Anthropic's API: messages, and how many tokens they have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.anthropic.parse import count_tokens, parse_messages
from web.bodies.json_response import json_response
from web.generation.ignored import IgnoredFields
from web.http.asgi import current_request

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

MESSAGES = "/v1/messages"


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add Anthropic's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
    """
    parse = partial(parse_messages, ignored=IgnoredFields())

    @app.post(MESSAGES)
    async def messages() -> Response:
        return await responder(parse)

    @app.post(f"{MESSAGES}/count_tokens")
    async def count() -> Response:
        return json_response(await responder.parse_body(count_tokens))

    @app.after_request
    async def add_request_id(response: Response) -> Response:
        """Add the id in Anthropic's header, too, which its clients show with an error."""
        http_request = current_request()
        if http_request.path == MESSAGES and http_request.generation_id:
            response.headers["request-id"] = http_request.generation_id
        return response
