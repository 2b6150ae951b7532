"""The handlers of what is done with a stored chat completion, of the current request's owner alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from quart import request as query

from runtime.errors import RequestError
from web.apis.openai.stored.archive import CompletionArchive, CompletionNotFound
from web.apis.openai.stored.schemas import parse_metadata
from web.bodies.json_response import json_response
from web.bodies.paged_response import paged_json_response, response_backlog
from web.bodies.query import entries, page_asked, page_object
from web.http.asgi import current_request
from web.process.limits import MAX_METADATA
from web.storage.items import page_json

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from web.apis.openai.stored.answers import CompletionList, DeletedCompletion
    from web.bodies.json_encoding import SelfEncoding
    from web.bodies.json_types import JsonObject
    from web.generation.openai_format.answers.options import ResponseOptions
    from web.generation.responder import Keep, Responder
    from web.storage.store import ObjectStore


class StoredCompletions:
    """Keeps, shows, lists, changes and deletes chat completions.

    Args:
        responder: reads bodies, and has the bounds on answers.
        store: where they are; None where nothing is stored.
    """

    def __init__(self, responder: Responder, store: ObjectStore | None) -> None:
        self._responder = responder
        self._archive = None if store is None else CompletionArchive(store)

    def keep(self, options: ResponseOptions) -> Keep | None:
        """Return what stores the answer to the current request; None if it is not to be stored."""
        if self._archive is None or options.record is None:
            return None
        return partial(self._archive.save, options, options.record, current_request().owner)

    async def get(self, completion_id: str) -> Response:
        """Answer with a completion."""
        return await self._long(await self._kept(completion_id).load(completion_id, current_request().owner))

    async def update(self, completion_id: str) -> Response:
        """Put other metadata in place of a completion's, and answer with it."""
        metadata = await self._responder.parse_body(parse_metadata)
        archive = self._kept(completion_id)
        return await self._long(await archive.update(completion_id, current_request().owner, metadata))

    async def delete(self, completion_id: str) -> Response:
        """Delete a completion."""
        await self._kept(completion_id).delete(completion_id, current_request().owner)
        deleted: DeletedCompletion = {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}
        return json_response(deleted)

    async def list(self) -> Response:
        """Answer with a page of the completions."""
        asked, metadata = page_asked("asc"), entries("metadata")
        if len(metadata) > MAX_METADATA:
            raise RequestError(f"'metadata' has more than {MAX_METADATA} entries.", param="metadata")
        if self._archive is None:
            return json_response(page_object([], [], has_more=False))
        owner, model = current_request().owner, query.args.get("model") or None
        found, has_more = await self._archive.page(asked, owner, model, metadata)
        page: CompletionList = page_object(found, [each.id for each in found], has_more=has_more)
        return await self._long(page)

    async def list_messages(self, completion_id: str) -> Response:
        """Answer with a page of the messages that a completion answers."""
        asked = page_asked("asc")
        found = await self._kept(completion_id).messages(completion_id, current_request().owner, asked)
        return await self._long(page_json(found))

    def _kept(self, completion_id: str) -> CompletionArchive:
        if self._archive is None:
            raise CompletionNotFound(completion_id)
        return self._archive

    async def _long(self, value: JsonObject | SelfEncoding) -> Response:
        backlog = response_backlog(self._responder.engine.unread)
        return await paged_json_response(value, backlog, self._responder.write_bytes)
