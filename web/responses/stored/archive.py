"""Responses as stored objects: what is kept of one, and how it is found again."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import trio

from runtime.errors import NotFound, RequestError
from web.responses.conversion import History, references
from web.responses.output.envelope import Status
from web.responses.output.kept import KeptResponse, kept_body
from web.responses.stored.conversations import ConversationNotFound
from web.storage.objects import Kind, StoredObject
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.responses.conversion import ParsedResponse
    from web.responses.input.schemas import PromptBody
    from web.storage.store import ObjectStore

logger = logging.getLogger("cede.web")

Json = dict[str, Any]

ITEM_ID = re.compile(r"[a-z]+_(?P<key>[0-9a-f]{32})_(?P<input>i?)(?P<number>[0-9]{1,6})")
"""An id that cede gave to an item; it names the response that the item was stored with."""

INTERRUPTED = {"code": "server_error", "message": "The server ended while this response was being made."}


class ResponseNotFound(NotFound):
    """No response of that id is stored."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Response with id '{response_id[:80]}' not found.", param="response_id", code="response_not_found"
        )


class Archive:
    """The stored responses.

    Args:
        store: of objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def save(self, parsed: ParsedResponse, response: Json, *, live: bool = False) -> bool:
        """Store a response, or put it in place of what was stored of it before; tell whether it could be stored.

        Args:
            parsed: the request that it answers.
            response: the response object, whose long parts may be `SelfEncoding`.
            live: it has not ended.
        """
        body = await kept_body(response, parsed.input)
        stored = StoredObject(
            Kind.RESPONSE,
            parsed.request.id,
            body,
            created=response["created_at"],
            owner=parsed.request.owner,
            previous=parsed.previous,
            model=response["model"],
            live=live,
        )
        try:
            if await self._store.put(stored):
                return True
            logger.warning("%s: not stored: it is larger than --state-size", parsed.request.id)
        except StoreFailed:
            logger.warning("%s: not stored", parsed.request.id)
        return False

    async def load(self, response_id: str, owner: str | None) -> KeptResponse:
        """Return a stored response and its input.

        Raises:
            ResponseNotFound: there is none of that id.
            StoreFailed: the store cannot be read.
        """
        stored = await self._stored(response_id, owner)
        return await trio.to_thread.run_sync(KeptResponse, stored.body)

    async def items_seen(self, response_id: str, owner: str | None) -> list[Json]:
        """Return the input of a stored response behind what it continues, as far as that is still there.

        Raises:
            ResponseNotFound: there is none of that id.
            StoreFailed: the store cannot be read.
        """
        stored = await self._stored(response_id, owner)
        items = await trio.to_thread.run_sync(lambda body: KeptResponse(body).input(), stored.body)
        previous = stored.previous
        while previous is not None and (before := await self._store.get(Kind.RESPONSE, previous, owner)) is not None:
            items = [*await trio.to_thread.run_sync(_items, before.body), *items]
            previous = before.previous
        return items

    async def _stored(self, response_id: str, owner: str | None) -> StoredObject:
        stored = await self._store.get(Kind.RESPONSE, response_id, owner)
        if stored is None:
            raise ResponseNotFound(response_id)
        return stored

    async def delete(self, response_id: str, owner: str | None) -> None:
        """Delete a response.

        Raises:
            ResponseNotFound: there is none of that id.
        """
        if not await self._store.delete(Kind.RESPONSE, response_id, owner):
            raise ResponseNotFound(response_id)

    async def history(self, body: PromptBody, owner: str | None) -> History:
        """Fetch what a body refers to.

        Raises:
            RequestError: it is not there.
        """
        bodies: Sequence[bytes] = ()
        if body.previous_response_id is not None:
            chain = await self._store.chain(Kind.RESPONSE, body.previous_response_id, owner)
            if chain is None or any(stored.live for stored in chain):
                raise _previous_not_found(body.previous_response_id)
            bodies = [stored.body for stored in chain]
        items = {item_id: await self._item(item_id, owner) for item_id in references(body)}
        return History(bodies, items)

    async def _item(self, item_id: str, owner: str | None) -> Json:
        """Return a stored item by its id."""
        if (found := ITEM_ID.fullmatch(item_id)) is not None:
            stored = await self._store.get(Kind.RESPONSE, f"resp_{found['key']}", owner)
            items: list[Json] = []
            if stored is not None:
                read = KeptResponse.input if found["input"] else KeptResponse.output
                items = await trio.to_thread.run_sync(lambda body: read(KeptResponse(body)), stored.body)
            if (number := int(found["number"])) < len(items):
                return items[number]
        raise _item_not_found(item_id)

    async def close_interrupted(self) -> None:
        """Say of the responses that another process was making when it ended that they have failed."""
        for stored in await self._store.live(Kind.RESPONSE):
            kept = KeptResponse(stored.body)
            failed = kept.response() | {"status": Status.FAILED.value, "error": INTERRUPTED}
            body = await kept_body(failed, kept.input())
            await self._store.put(
                StoredObject(stored.kind, stored.id, body, stored.created, stored.owner, stored.previous, stored.model)
            )


def _items(body: bytes) -> list[Json]:
    kept = KeptResponse(body)
    return [*kept.input(), *kept.output()]


def no_history(body: PromptBody) -> History:
    """Return the history of a body where nothing is stored.

    Raises:
        RequestError: it refers to something.
    """
    if body.previous_response_id is not None:
        raise _previous_not_found(body.previous_response_id)
    if body.conversation_id is not None:
        raise ConversationNotFound(body.conversation_id)
    for item_id in references(body):
        raise _item_not_found(item_id)
    return History()


def _previous_not_found(response_id: str) -> RequestError:
    return RequestError(
        f"Previous response with id '{response_id[:80]}' not found, or one before it.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _item_not_found(item_id: str) -> RequestError:
    return RequestError(f"Item with id '{item_id[:80]}' not found.", param="input", code="item_not_found")
