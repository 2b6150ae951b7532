"""The routes of stored conversations, and their bodies; of the current request's owner alone."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from runtime.errors import RequestError
from web.apis.responses.answers import Conversation, DeletedConversation, Item, ItemList
from web.apis.responses.input.items import InputItem, stored_items
from web.apis.responses.input.turns import turns_of
from web.bodies.fields import Metadata
from web.bodies.json_encoding import EncodedJson
from web.bodies.query import page_asked
from web.bodies.responses import json_response
from web.bodies.strict_model import StrictModel, parse_model
from web.http.asgi import current_request
from web.openapi.operations import LISTS, PAGES, Reply
from web.storage.objects import ItemPage, Kind, ObjectNotFound, encoded, page_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quart_trio.wrappers import TrioResponse as Response

    from runtime.loading.served import ServedModel
    from web.apis.responses.input.items import AnyItem
    from web.apis.responses.stored.state import State
    from web.generation.responder import Responder
    from web.openapi.operations import Api
    from web.storage.objects import StoredObject

Json = dict[str, Any]

MAX_ADDED = 20
"""Items that are added at a time: OpenAI's bound."""

Items = Annotated[list[InputItem], Field(max_length=MAX_ADDED, fail_fast=True)]


class ConversationBody(StrictModel):
    """The body of `POST /v1/conversations`."""

    items: Items | None = None
    metadata: Metadata | None = None


class MetadataBody(StrictModel):
    """The body of `POST /v1/conversations/{conversation_id}`: all of the new metadata; null for none."""

    metadata: Metadata | None


class ItemsBody(StrictModel):
    """The body of `POST /v1/conversations/{conversation_id}/items`."""

    items: Items


def read_conversation(raw: bytes, model: ServedModel, _: int = 1) -> tuple[list[Json], Mapping[str, str]]:
    """Return the items and the metadata of a new conversation.

    Raises:
        RequestError: they are not valid, or an item is of a kind that cede does not know.
    """
    body = parse_model(ConversationBody, raw, context_length=model.context_length)
    return _stored(body.items or []), body.metadata or {}


def read_metadata(raw: bytes, model: ServedModel, _: int = 1) -> Mapping[str, str]:
    """Return new metadata.

    Raises:
        RequestError: they are not valid.
    """
    return parse_model(MetadataBody, raw, context_length=model.context_length).metadata or {}


def read_items(raw: bytes, model: ServedModel, _: int = 1) -> list[Json]:
    """Return items that are to be added.

    Raises:
        RequestError: they are not valid, or one is of a kind that cede does not know.
    """
    return _stored(parse_model(ItemsBody, raw, context_length=model.context_length).items)


def _stored(items: Sequence[AnyItem]) -> list[Json]:
    turns_of(items, "items")  # what no response could be made from is refused now, and by its own name
    return stored_items(items, uuid.uuid4().hex)


CONVERSATIONS = "/v1/conversations"
ONE = f"{CONVERSATIONS}/<conversation_id>"
STORED = LISTS | {404}
QUESTION = "What is the capital of France?"
ITEMS = {"items": [{"role": "user", "content": QUESTION}]}
METADATA = {"metadata": {"topic": "geography"}}
SHOWN = {200: Reply.json(Conversation)}


def add_conversations(api: Api, responder: Responder, state: State | None) -> None:
    """Add what makes, shows, changes and deletes conversations, and their items.

    Args:
        api: to be extended.
        responder: reads bodies, and has the bounds on answers.
        state: where conversations are stored; None where they are not.
    """

    @api.post(CONVERSATIONS, SHOWN, {503}, body=ConversationBody, example=ITEMS | METADATA)
    async def create_conversation() -> Response:
        """Create a conversation, of which responses can be made."""
        items, metadata = await responder.parse_body(read_conversation)
        if state is None:
            raise RequestError("Conversations are not stored by this server.", code="unsupported_endpoint")
        return _shown(await state.conversations.create(await encoded(items), metadata, current_request().owner))

    @api.get(ONE, SHOWN, STORED)
    async def get_conversation(conversation_id: str) -> Response:
        """Get a conversation."""
        store = _in(state, conversation_id).store
        return _shown(await store.get(Kind.CONVERSATION, conversation_id, current_request().owner))

    @api.post(ONE, SHOWN, STORED, body=MetadataBody, example=METADATA)
    async def update_conversation(conversation_id: str) -> Response:
        """Update a conversation's metadata: what is sent replaces all of it."""
        metadata = await responder.parse_body(read_metadata)
        store = _in(state, conversation_id).store
        return _shown(await store.annotate(Kind.CONVERSATION, conversation_id, current_request().owner, metadata))

    @api.delete(ONE, {200: Reply.json(DeletedConversation)}, STORED)
    async def delete_conversation(conversation_id: str) -> Response:
        """Delete a conversation, with its items."""
        await _in(state, conversation_id).store.delete(Kind.CONVERSATION, conversation_id, current_request().owner)
        return json_response(DeletedConversation(id=conversation_id, object="conversation.deleted", deleted=True))

    _add_items(api, responder, state)


def _add_items(api: Api, responder: Responder, state: State | None) -> None:
    @api.get(f"{ONE}/items", {200: Reply.json(ItemList)}, STORED, parameters=PAGES["desc"])
    async def list_conversation_items(conversation_id: str) -> Response:
        """List the items of a conversation, a page at a time."""
        asked, store = page_asked("desc"), _in(state, conversation_id).store
        found = await store.page(Kind.CONVERSATION, conversation_id, current_request().owner, asked)
        return await responder.long_response(page_json(found))

    @api.post(f"{ONE}/items", {200: Reply.json(ItemList)}, STORED, body=ItemsBody, example=ITEMS)
    async def add_conversation_items(conversation_id: str) -> Response:
        """Add up to 20 items to a conversation."""
        items = await encoded(await responder.parse_body(read_items))
        await _in(state, conversation_id).conversations.add(conversation_id, current_request().owner, items)
        return await responder.long_response(page_json(ItemPage(items, has_more=False)))

    @api.get(f"{ONE}/items/<item_id>", {200: Reply.json(Item)}, STORED)
    async def get_conversation_item(conversation_id: str, item_id: str) -> Response:
        """Get an item of a conversation."""
        store = _in(state, conversation_id).store
        found = await store.item(Kind.CONVERSATION, conversation_id, current_request().owner, item_id)
        return await responder.long_response(EncodedJson(found.body))

    @api.delete(f"{ONE}/items/<item_id>", SHOWN, STORED)
    async def delete_conversation_item(conversation_id: str, item_id: str) -> Response:
        """Delete an item of a conversation."""
        conversations = _in(state, conversation_id).conversations
        return _shown(await conversations.remove(conversation_id, current_request().owner, item_id))


def _in(state: State | None, conversation_id: str) -> State:
    """Return where a conversation may be.  Raises ObjectNotFound where nothing is stored."""
    if state is None:
        raise ObjectNotFound(Kind.CONVERSATION, conversation_id)
    return state


def _shown(stored: StoredObject) -> Response:
    shown: Conversation = {
        "id": stored.id,
        "object": "conversation",
        "created_at": int(stored.created),
        "metadata": dict(stored.metadata),
    }
    return json_response(shown)
