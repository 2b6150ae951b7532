"""The handlers of stored conversations, of the current request's owner alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.input.conversation_bodies import read_conversation, read_items, read_metadata
from web.apis.responses.stored.conversations import ConversationNotFound
from web.bodies.json_encoding import EncodedJson
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.bodies.query import page_asked
from web.http.asgi import current_request
from web.storage.items import encoded, page_json
from web.storage.objects import ItemPage

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.responses.answers import Conversation, DeletedConversation
    from web.apis.responses.stored.conversations import StoredConversations
    from web.generation.responder import Responder
    from web.storage.objects import StoredObject


class ConversationHandlers:
    """Makes, shows, changes and deletes conversations, and their items.

    Args:
        responder: reads bodies, and has the bounds on answers.
        stored: where they are; None where nothing is stored.
    """

    def __init__(self, responder: Responder, stored: StoredConversations | None) -> None:
        self._responder = responder
        self._stored = stored

    async def create(self) -> Response:
        """Store a new conversation, and answer with it."""
        items, metadata = await self._responder.parse_body(read_conversation)
        if self._stored is None:
            raise RequestError("Conversations are not stored by this server.", code="unsupported_endpoint")
        return _shown(await self._stored.create(await encoded(items), metadata, current_request().owner))

    async def get(self, conversation_id: str) -> Response:
        """Answer with a conversation, without its items."""
        return _shown(await self._in(conversation_id).load(conversation_id, current_request().owner))

    async def update(self, conversation_id: str) -> Response:
        """Put other metadata in place of a conversation's, and answer with it."""
        metadata = await self._responder.parse_body(read_metadata)
        return _shown(await self._in(conversation_id).update(conversation_id, current_request().owner, metadata))

    async def delete(self, conversation_id: str) -> Response:
        """Delete a conversation, with its items."""
        await self._in(conversation_id).delete(conversation_id, current_request().owner)
        deleted: DeletedConversation = {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
        return json_response(deleted)

    async def list_items(self, conversation_id: str) -> Response:
        """Answer with a page of a conversation's items."""
        asked = page_asked("desc")
        found = await self._in(conversation_id).page(conversation_id, current_request().owner, asked)
        return await self._long(page_json(found))

    async def add_items(self, conversation_id: str) -> Response:
        """Add items to a conversation, and answer with them."""
        items = await encoded(await self._responder.parse_body(read_items))
        await self._in(conversation_id).add(conversation_id, current_request().owner, items)
        return await self._long(page_json(ItemPage(items, has_more=False)))

    async def get_item(self, conversation_id: str, item_id: str) -> Response:
        """Answer with one of a conversation's items."""
        found = await self._in(conversation_id).item(conversation_id, current_request().owner, item_id)
        return await self._long(EncodedJson(found.body))

    async def delete_item(self, conversation_id: str, item_id: str) -> Response:
        """Take an item out of a conversation, and answer with the conversation."""
        return _shown(await self._in(conversation_id).remove(conversation_id, current_request().owner, item_id))

    def _in(self, conversation_id: str) -> StoredConversations:
        if self._stored is None:
            raise ConversationNotFound(conversation_id)
        return self._stored

    async def _long(self, value: object) -> Response:
        backlog = response_backlog(self._responder.engine.unread)
        return await paged_json_response(value, backlog, self._responder.write_bytes)


def _shown(stored: StoredObject) -> Response:
    shown: Conversation = {
        "id": stored.id,
        "object": "conversation",
        "created_at": int(stored.created),
        "metadata": dict(stored.metadata),
    }
    return json_response(shown)
