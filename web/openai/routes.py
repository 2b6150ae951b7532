"""The routes of OpenAI's API: chat completions and completions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.generation.responder import Responder
from web.openai.chat.parse import parse_chat
from web.openai.completions.parse import parse_completion
from web.openai.requests import Settings

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.http.asgi import ScopedApp


def add_routes(
    app: ScopedApp, engine: Engine, *, write_bytes: int, keep_alive: float, settings: Settings | None = None
) -> None:
    """Add OpenAI's API to an application.

    Args:
        app: to be extended.
        engine: serves the requests.
        write_bytes: of one write to a connection.
        keep_alive: seconds of silence after which a stream says that it is alive.
        settings: how this server speaks the API.
    """
    settings = settings or Settings()
    generate = Responder(engine, write_bytes, keep_alive)

    @app.post("/v1/chat/completions")
    async def chat_completions() -> Response:
        return await generate(partial(parse_chat, settings=settings))

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await generate(partial(parse_completion, settings=settings))
