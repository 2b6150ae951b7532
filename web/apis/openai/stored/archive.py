"""Chat completions as stored objects: what is kept of one, and how it is found again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runtime.errors import NotFound
from web.apis.openai.stored.answers import StoredChatCompletion
from web.bodies.json_encoding import EncodedJson, SelfEncoding, dumps
from web.bodies.json_response import encode_json
from web.storage.items import encoded
from web.storage.objects import Kind, Listing, StoredObject
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from web.bodies.json_types import JsonObject
    from web.bodies.query import PageAsked
    from web.generation.openai_format.answers.options import ChatRecord, ResponseOptions
    from web.storage.objects import ItemPage
    from web.storage.store import ObjectStore

logger = logging.getLogger("cede.web")


class CompletionNotFound(NotFound):
    """No chat completion of that id is stored."""

    def __init__(self, completion_id: str) -> None:
        super().__init__(
            f"Chat completion with id '{completion_id[:80]}' not found.",
            param="completion_id",
            code="completion_not_found",
        )


class StoredCompletion(SelfEncoding[StoredChatCompletion]):
    """A stored chat completion: the very bytes that were answered, and its metadata, which may have changed since.

    Args:
        stored: its body is the completion's JSON.
    """

    def __init__(self, stored: StoredObject) -> None:
        self._stored = stored
        self.id = stored.id

    def iter_json(self) -> Iterator[bytes]:
        """Yield the completion's JSON in fragments."""
        yield from EncodedJson(self._stored.body[:-1]).iter_json()  # without its last brace
        yield f',"metadata":{dumps(dict(self._stored.metadata))}}}'.encode()


class CompletionArchive:
    """The stored chat completions.

    Args:
        store: of objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def save(
        self, options: ResponseOptions, record: ChatRecord, owner: str | None, completion: JsonObject
    ) -> EncodedJson:
        """Store a completion, and return it encoded; where it cannot be stored, the log says so.

        Args:
            options: of the answer.
            record: what is stored beside the answer.
            owner: of the request.
            completion: the response object.
        """
        content = await encode_json(completion)
        stored = StoredObject(
            Kind.CHAT_COMPLETION,
            options.id,
            content,
            created=options.created,
            owner=owner,
            model=options.model,
            metadata=record.metadata,
        )
        try:
            if not await self._store.put(stored, await encoded(record.messages)):
                logger.warning("%s: not stored: it is larger than --state-size", stored.id)
        except StoreFailed:
            logger.warning("%s: not stored", stored.id)
        return EncodedJson(content)

    async def load(self, completion_id: str, owner: str | None) -> StoredCompletion:
        """Return a stored completion.

        Raises:
            CompletionNotFound: there is none of that id.
            StoreFailed: the store cannot be read.
        """
        return _found(await self._store.get(Kind.CHAT_COMPLETION, completion_id, owner), completion_id)

    async def update(self, completion_id: str, owner: str | None, metadata: Mapping[str, str]) -> StoredCompletion:
        """Put other metadata in place of a completion's, and return it.

        Raises:
            CompletionNotFound: there is none of that id.
            StoreFailed: the store cannot be written.
            ObjectTooLarge: it would take more than all that may be stored.
        """
        return _found(await self._store.annotate(Kind.CHAT_COMPLETION, completion_id, owner, metadata), completion_id)

    async def delete(self, completion_id: str, owner: str | None) -> None:
        """Delete a completion.

        Raises:
            CompletionNotFound: there is none of that id.
        """
        if not await self._store.delete(Kind.CHAT_COMPLETION, completion_id, owner):
            raise CompletionNotFound(completion_id)

    async def messages(self, completion_id: str, owner: str | None, asked: PageAsked) -> ItemPage:
        """Return a page of the messages that a completion answers.

        Raises:
            CompletionNotFound: there is none of that id.
            NothingAfter: it has no message `asked.after`.
        """
        page = await self._store.page(Kind.CHAT_COMPLETION, completion_id, owner, asked)
        if page is None:
            raise CompletionNotFound(completion_id)
        return page

    async def page(
        self, asked: PageAsked, owner: str | None, model: str | None, metadata: Mapping[str, str]
    ) -> tuple[list[StoredCompletion], bool]:
        """Return a page of the completions, and whether others follow.

        Args:
            asked: which page.
            owner: whose.
            model: only those of this model.
            metadata: only those that have these entries.

        Raises:
            NothingAfter: there is no completion `asked.after`.
        """
        listing = Listing(
            Kind.CHAT_COMPLETION, owner, asked.limit, asked.ascending, asked.after, model, metadata=metadata
        )
        found = await self._store.list(listing)
        return [StoredCompletion(stored) for stored in found.objects], found.has_more


def _found(stored: StoredObject | None, completion_id: str) -> StoredCompletion:
    if stored is None:
        raise CompletionNotFound(completion_id)
    return StoredCompletion(stored)
