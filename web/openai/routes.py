"""The routes of OpenAI's API: chat completions and completions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.openai.chat.parse import parse_chat
from web.openai.completions.parse import parse_completion
from web.openai.requests import Settings

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp


def add_routes(app: ScopedApp, responder: Responder, settings: Settings | None = None) -> None:
    """Add OpenAI's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
        settings: how this server speaks the API.
    """
    settings = settings or Settings()

    @app.post("/v1/chat/completions")
    async def chat_completions() -> Response:
        return await responder(partial(parse_chat, settings=settings))

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await responder(partial(parse_completion, settings=settings))
