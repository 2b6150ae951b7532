"""The routes of OpenAI's API: chat completions, what is stored of them, completions and embeddings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from web.apis.openai.chat.parse import parse_chat
from web.apis.openai.completions.answers import Completion, CompletionChunk
from web.apis.openai.completions.parse import parse_completion
from web.apis.openai.completions.schema import CompletionBody
from web.apis.openai.embeddings.answers import Embeddings
from web.apis.openai.embeddings.parse import parse_embeddings
from web.apis.openai.embeddings.schema import EmbeddingBody
from web.apis.openai.stored.answers import CompletionList, DeletedCompletion, MessageList, StoredChatCompletion
from web.apis.openai.stored.handlers import StoredCompletions
from web.apis.openai.stored.schemas import MetadataBody
from web.generation.control.fields import CONTROL_HEADERS
from web.generation.embeddings.batch import Embedder
from web.generation.openai_format.chat.answers import ChatCompletion, ChatCompletionChunk
from web.generation.openai_format.chat.schema import ChatBody
from web.generation.openai_format.errors import Error
from web.generation.openai_format.requests import Settings
from web.openapi.operations import GENERATES, LISTS, PAGES, Api, Parameter, Reply
from web.process.limits import MAX_METADATA

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.generation.responder import Responder
    from web.http.asgi import ScopedApp
    from web.storage.store import ObjectStore

CHATS = "/v1/chat/completions"
STORED = LISTS | {404}
FILTERS = (
    Parameter("model", "Only those that were asked of this model."),
    Parameter(
        "metadata",
        "Only those that have these entries: `metadata[key]=value`.",
        {
            "type": "object",
            "propertyNames": {"minLength": 1},
            "additionalProperties": {"type": "string"},
            "maxProperties": MAX_METADATA,
        },
        deep=True,
    ),
)


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
    stored = StoredCompletions(responder, store)
    _add_generating_routes(api, responder, stored, settings)
    _add_stored_routes(api, stored)
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


def _add_generating_routes(api: Api, responder: Responder, stored: StoredCompletions, settings: Settings) -> None:
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
        return await responder.answer(asked, stored.keep(asked.options))

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


def _add_stored_routes(api: Api, stored: StoredCompletions) -> None:
    one, completion = f"{CHATS}/<completion_id>", {200: Reply.json(StoredChatCompletion)}

    @api.get(CHATS, {200: Reply.json(CompletionList)}, LISTS, parameters=(*PAGES["asc"], *FILTERS))
    async def list_chat_completions() -> Response:
        """List stored chat completions, a page at a time."""
        return await stored.list()

    @api.get(one, completion, STORED)
    async def get_chat_completion(completion_id: str) -> Response:
        """Get a stored chat completion."""
        return await stored.get(completion_id)

    @api.post(one, completion, STORED, body=MetadataBody, example={"metadata": {"topic": "geography"}})
    async def update_chat_completion(completion_id: str) -> Response:
        """Update the metadata of a stored chat completion: what is sent replaces all of it."""
        return await stored.update(completion_id)

    @api.delete(one, {200: Reply.json(DeletedCompletion)}, STORED)
    async def delete_chat_completion(completion_id: str) -> Response:
        """Delete a stored chat completion."""
        return await stored.delete(completion_id)

    @api.get(f"{one}/messages", {200: Reply.json(MessageList)}, STORED, parameters=PAGES["asc"])
    async def list_chat_messages(completion_id: str) -> Response:
        """List the messages that a stored chat completion answers, a page at a time."""
        return await stored.list_messages(completion_id)
