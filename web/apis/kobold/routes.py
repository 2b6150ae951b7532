"""The routes of KoboldAI's API that generate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.kobold.answers import Error, KoboldErrors, Piece, Results
from web.apis.kobold.parse import GenerateBody, parse_generate
from web.bodies.errors.shapes import ErrorRoute
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.ignored import IgnoredFields
from web.openapi.operations import EVENTS, GENERATES, Api, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp

GENERATE, STREAM = "/api/v1/generate", "/api/extra/generate/stream"
ERRORS = tuple(ErrorRoute(path, KoboldErrors()) for path in (GENERATE, STREAM))
EXAMPLE = {"prompt": "import os", "max_length": 16}


def add_routes(app: ScopedApp, responder: Responder) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        responder: answers them.
    """
    api, ignored = Api(app, "Kobold", "KoboldAI's API, for clients that know no other.", Error), IgnoredFields()

    @api.post(
        GENERATE,
        {200: Reply.json(Results)},
        GENERATES,
        body=GenerateBody,
        example=EXAMPLE,
        parameters=CONTROL_HEADERS,
    )
    async def kobold_generate() -> Response:
        """Create a completion of a prompt, which is sent whole."""
        return await responder(partial(parse_generate, ignored=ignored))

    @api.post(
        STREAM,
        {200: Reply("The answer, as a stream.", {EVENTS: Piece})},
        GENERATES,
        body=GenerateBody,
        example=EXAMPLE,
        parameters=CONTROL_HEADERS,
    )
    async def kobold_generate_stream() -> Response:
        """Create a completion of a prompt, as a stream."""
        return await responder(partial(parse_generate, stream=True, ignored=ignored))
