"""The routes of OpenAI's API: chat completions, what is stored of them, completions and embeddings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import Completion, CompletionBody, CompletionChunk, parse_completion
from web.apis.openai.embeddings import EmbeddingBody, Embeddings, parse_embeddings
from web.apis.openai.stored import CHATS, add_stored_routes, keeper
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.embeddings import Embedder
from web.generation.openai_format.chat.answers import ChatCompletion, ChatCompletionChunk
from web.generation.openai_format.chat.schema import ChatBody
from web.generation.openai_format.errors import Error
from web.generation.openai_format.requests import Settings
from web.openapi.operations import GENERATES, Api, Reply

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp
    from web.storage.store import ObjectStore


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
    api = Api(app, "OpenAI", "OpenAI's API, with what llama-server, vLLM and cede add to it.", Error)
    _add_generating_routes(api, responder, store, settings)
    add_stored_routes(api, responder, store)
    embed = Embedder(responder)

    @api.post(
        "/v1/embeddings",
        {200: Reply.json(Embeddings)},
        GENERATES,
        body=EmbeddingBody,
        example={"input": ["import os", "import sys"]},
    )
    async def create_embedding() -> Response:
        """Create embeddings."""
        return await embed(partial(parse_embeddings, ignored=settings.ignored))


def _add_generating_routes(api: Api, responder: Responder, store: ObjectStore | None, settings: Settings) -> None:
    @api.post(
        CHATS,
        {200: Reply.generated(ChatCompletion, ChatCompletionChunk)},
        GENERATES,
        body=ChatBody,
        example={"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16},
        parameters=CONTROL_HEADERS,
    )
    async def create_chat_completion() -> Response:
        """Create a chat completion."""
        asked = await responder.parse_body(partial(parse_chat, settings=settings))
        return await responder.answer(asked, keeper(store, asked.options))

    @api.post(
        "/v1/completions",
        {200: Reply.generated(Completion, CompletionChunk)},
        GENERATES,
        body=CompletionBody,
        example={"prompt": "import os", "max_tokens": 16},
        parameters=CONTROL_HEADERS,
    )
    async def create_completion() -> Response:
        """Create a completion of a text, or of token ids."""
        return await responder(partial(parse_completion, settings=settings))
