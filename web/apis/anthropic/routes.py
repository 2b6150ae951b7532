"""The routes of Anthropic's API: messages, and how many tokens they have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.anthropic.answers import Error, Message, StreamEvent, TokenCount
from web.apis.anthropic.parse import count_tokens, parse_messages
from web.apis.anthropic.prompts.schemas import CountBody, MessagesBody
from web.bodies.responses import json_response
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.passed_over import IgnoredFields
from web.http.asgi import current_request
from web.openapi.operations import Api, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

MESSAGES = "/v1/messages"
EXAMPLE = {"model": "any", "messages": [{"role": "user", "content": "What is the capital of France?"}]}


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add Anthropic's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
    """
    api = Api(app, "Anthropic", "Anthropic's Messages API.", Error)
    parse = partial(parse_messages, ignored=IgnoredFields())

    @api.post(
        MESSAGES,
        {200: Reply.generated(Message, StreamEvent)},
        {504, 529},
        body=MessagesBody,
        example=EXAMPLE | {"max_tokens": 16},
        parameters=CONTROL_HEADERS,
    )
    async def create_message() -> Response:
        """Create a message."""
        return await responder(parse)

    @api.post(f"{MESSAGES}/count_tokens", {200: Reply.json(TokenCount)}, {529}, body=CountBody, example=EXAMPLE)
    async def count_message_tokens() -> Response:
        """Count the tokens of a message's prompt."""
        return json_response(await responder.parse_body(count_tokens))

    @app.after_request
    async def add_request_id(response: Response) -> Response:
        """Add the id in Anthropic's header, too, which its clients show with an error."""
        http_request = current_request()
        if http_request.path == MESSAGES and http_request.generation_id:
            response.headers["request-id"] = http_request.generation_id
        return response
