"""The routes of OpenAI's API: chat completions, what is stored of them, completions and embeddings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from web.apis.openai.chat.parse import parse_chat
from web.apis.openai.completions.parse import parse_completion
from web.apis.openai.embeddings.parse import parse_embeddings
from web.apis.openai.stored.handlers import StoredCompletions
from web.generation.embeddings.batch import Embedder
from web.generation.openai_format.requests import Settings

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp
    from web.storage.store import ObjectStore

CHATS = "/v1/chat/completions"


def add_routes(
    app: ScopedApp, responder: Responder, store: ObjectStore | None, settings: Settings | None = None
) -> None:
    """Add OpenAI's API to an application.

    Args:
        app: to be extended.
        responder: answers those that generate.
        store: where chats are stored; None where they are not.
        settings: how this server speaks the API.
    """
    settings = replace(settings or Settings(), stores=store is not None)
    stored = StoredCompletions(responder, store)
    embed = Embedder(responder)

    @app.post(CHATS)
    async def chat_completions() -> Response:
        asked = await responder.parse_body(partial(parse_chat, settings=settings))
        return await responder.answer(asked, stored.keep(asked.options))

    @app.get(CHATS)
    async def list_completions() -> Response:
        return await stored.list()

    @app.get(f"{CHATS}/<completion_id>")
    async def get_completion(completion_id: str) -> Response:
        return await stored.get(completion_id)

    @app.post(f"{CHATS}/<completion_id>")
    async def update_completion(completion_id: str) -> Response:
        return await stored.update(completion_id)

    @app.delete(f"{CHATS}/<completion_id>")
    async def delete_completion(completion_id: str) -> Response:
        return await stored.delete(completion_id)

    @app.get(f"{CHATS}/<completion_id>/messages")
    async def list_messages(completion_id: str) -> Response:
        return await stored.list_messages(completion_id)

    @app.post("/v1/embeddings")
    async def embeddings() -> Response:
        return await embed(partial(parse_embeddings, ignored=settings.ignored))

    @app.post("/v1/completions")
    async def completions() -> Response:
        return await responder(partial(parse_completion, settings=settings))
