"""Responses as stored objects: what is kept of one, and how it is found again."""

from __future__ import annotations

import json
import logging
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.responses.conversion import NOTHING, History, references
from web.apis.responses.input.items import MAX_ITEMS
from web.bodies.json_encoding import dumps
from web.bodies.responses import encode_json
from web.storage.objects import ItemNotFound, Kind, ObjectNotFound, StoredObject, encoded
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.apis.responses.answers import AnyItem, Failure, Response
    from web.apis.responses.input.schemas import PromptBody
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.stored.conversations import ConversationLease
    from web.generation.asked import Asked
    from web.storage.objects import Item
    from web.storage.store import ObjectStore

logger = logging.getLogger("cede.web")

ITEM_ID = re.compile(r"[a-z]+_(?P<key>[0-9a-f]{32})_i?[0-9]{1,6}")
"""An id that cede gave to an item; it names the response that the item was stored with."""

INTERRUPTED: Failure = {"code": "server_error", "message": "The server ended while this response was being made."}


class Archive:
    """The stored responses, as far as there is more to them than to other stored objects.

    Attributes:
        store: of objects, where they are.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    async def save(
        self,
        parsed: Asked[ResponseOptions],
        response: Response,
        given: Sequence[Item],
        made: Sequence[Item] = (),
        *,
        live: bool = False,
    ) -> bool:
        """Store a response, or put it in place of what was stored of it before; tell whether it could be stored.

        Args:
            parsed: the request that it answers.
            response: the response object, whose long parts may be `SelfEncoding`.
            given: the items of its own input.
            made: those of its output, without log-probabilities.
            live: it has not ended.
        """
        stored = StoredObject(
            Kind.RESPONSE,
            parsed.request.id,
            await encode_json(response),
            created=response["created_at"],
            owner=parsed.request.owner,
            previous=parsed.options.previous,
            model=response["model"],
            live=live,
        )
        try:
            if await self.store.put(stored, given, made):
                return True
            logger.warning("%s: not stored: it is larger than --state-size", parsed.request.id)
        except StoreFailed:
            logger.warning("%s: not stored", parsed.request.id)
        return False

    async def history(self, body: PromptBody, owner: str | None, most_bytes: int) -> History:
        """Fetch what a body refers to.

        Args:
            body: of the request.
            owner: who asks.
            most_bytes: of what comes before, from which on no more of it is read.

        Raises:
            RequestError: it is not there.
        """
        before = NOTHING
        if (previous := body.previous_response_id) is not None:
            try:
                before = await self.store.before(Kind.RESPONSE, previous, owner, MAX_ITEMS + 1, most_bytes)
            except ObjectNotFound:
                raise _previous_not_found(previous) from None
        return History(before, {item_id: await self._item(item_id, owner) for item_id in references(body)})

    async def _item(self, item_id: str, owner: str | None) -> bytes:
        """Return a stored item by its id, as JSON."""
        if (named := ITEM_ID.fullmatch(item_id)) is not None:
            with suppress(ObjectNotFound, ItemNotFound):
                return (await self.store.item(Kind.RESPONSE, f"resp_{named['key']}", owner, item_id)).body
        raise _item_not_found(item_id)

    async def close_interrupted(self) -> None:
        """Say of the responses that another process was making when it ended that they have failed."""
        try:
            for stored in await self.store.live(Kind.RESPONSE):
                response: Response = json.loads(stored.body)
                failed = dumps(response | {"status": "failed", "error": INTERRUPTED})
                await self.store.end(replace(stored, body=failed.encode(), live=False))
        except StoreFailed:
            logger.warning("responses that another process has left unfinished stay so until the next start")


async def store_ended(
    archive: Archive | None, parsed: Asked[ResponseOptions], turn: ConversationLease | None, response: Response
) -> Response:
    """Add a response that has ended to its conversation, store it, and return it as it came out.

    Args:
        archive: where it is stored; None where nothing is.
        parsed: the request that it answers.
        turn: of its conversation; None where it has none.
        response: the response object; its `conversation` is null if it was cancelled or has failed.
    """
    given, made = await encoded(parsed.options.input), await encoded(_without_logprobs(response["output"]))
    if turn is not None and response["conversation"] is not None and not await turn.append([*given, *made]):
        response = response | {"conversation": None}
    if parsed.options.store and not (archive is not None and await archive.save(parsed, response, given, made)):
        response = response | {"store": False}
    return response


def _without_logprobs(output: Sequence[AnyItem]) -> list[AnyItem]:
    """Return items of an output as what continues it reads them: log-probabilities may be megabytes."""
    return [
        item | {"content": [part | {"logprobs": []} if "logprobs" in part else part for part in item["content"]]}
        if item["type"] == "message"
        else item
        for item in output
    ]


def no_history(body: PromptBody) -> History:
    """Return the history of a body where nothing is stored.

    Raises:
        RequestError: it refers to something.
    """
    if body.previous_response_id is not None:
        raise _previous_not_found(body.previous_response_id)
    if body.conversation_id is not None:
        raise ObjectNotFound(Kind.CONVERSATION, body.conversation_id)
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
