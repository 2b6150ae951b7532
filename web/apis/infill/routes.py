"""The routes that fill in the middle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.infill.fim import parse_fim
from web.apis.infill.parse import parse_infill

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.openai_format.requests import Settings
    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp


def add_routes(app: ScopedApp, responder: Responder, settings: Settings) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
        settings: how this server speaks OpenAI's API, whose fields these bodies have.
    """

    @app.post("/infill")
    async def infill() -> Response:
        return await responder(partial(parse_infill, settings=settings))

    @app.post("/v1/fim/completions")
    async def fim_completions() -> Response:
        return await responder(partial(parse_fim, settings=settings))
