"""Stored chat completions: kept at their ends, and shown, listed, changed and deleted for whoever asked for them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Literal

from quart import request as query
from typing_extensions import TypedDict

from runtime.errors import RequestError
from web.apis.openai.chat import StoredMessage
from web.bodies.fields import Metadata
from web.bodies.json_encoding import EncodedJson, Long, SelfEncoding, dumps
from web.bodies.query import entries, page_asked, page_object
from web.bodies.responses import encode_json, json_response
from web.bodies.strict_model import StrictModel, parse_model
from web.generation.openai_format.chat.answers import ChatCompletion
from web.http.asgi import current_request
from web.openapi.operations import LISTS, PAGES, Parameter, Reply
from web.process.limits import MAX_METADATA
from web.storage.objects import Kind, Listing, ObjectNotFound, StoredObject, encoded, page_json
from web.storage.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quart_trio.wrappers import TrioResponse as Response

    from runtime.loading.served import ServedModel
    from web.bodies.json_encoding import JsonObject
    from web.generation.openai_format.answers.options import ChatRecord, ResponseOptions
    from web.generation.responder import Keep, Responder
    from web.openapi.operations import Api
    from web.storage.store import ObjectStore


class StoredChatCompletion(ChatCompletion):
    """A chat completion as it was answered, and its metadata."""

    metadata: dict[str, str]


class CompletionList(TypedDict):
    """A page of stored chat completions."""

    object: Literal["list"]
    data: list[Long[StoredChatCompletion]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedCompletion(TypedDict):
    """A chat completion that is stored no longer."""

    id: str
    object: Literal["chat.completion.deleted"]
    deleted: Literal[True]


class MessageList(TypedDict):
    """A page of the messages of a request."""

    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool


logger = logging.getLogger("cede.web")

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


class StoredCompletion(SelfEncoding[StoredChatCompletion]):
    """A stored chat completion: the very bytes that were answered, and its metadata, which may have changed since.

    Args:
        stored: its body is the completion's JSON.
    """

    def __init__(self, stored: StoredObject) -> None:
        self._stored = stored

    def iter_json(self) -> Iterator[bytes]:
        """Yield the completion's JSON in fragments."""
        yield from EncodedJson(self._stored.body[:-1]).iter_json()  # without its last brace
        yield f',"metadata":{dumps(dict(self._stored.metadata))}}}'.encode()


class MetadataBody(StrictModel):
    """The body of `POST /v1/chat/completions/{completion_id}`: all of the new metadata; null for none."""

    metadata: Metadata | None


def parse_metadata(raw: bytes, model: ServedModel, max_generations: int = 1) -> Mapping[str, str]:
    """Return the metadata of a body.

    Raises:
        RequestError: it is not valid.
    """
    return parse_model(MetadataBody, raw, context_length=model.context_length).metadata or {}


def keeper(store: ObjectStore | None, options: ResponseOptions) -> Keep | None:
    """Return what stores the answer to the current request; None if it is not to be stored."""
    if store is None or options.record is None:
        return None
    return partial(_save, store, options, options.record, current_request().owner)


async def _save(
    store: ObjectStore, options: ResponseOptions, record: ChatRecord, owner: str | None, completion: JsonObject
) -> EncodedJson:
    """Store a completion, and return it encoded; where it cannot be stored, the log says so."""
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
        if not await store.put(stored, await encoded(record.messages)):
            logger.warning("%s: not stored: it is larger than --state-size", stored.id)
    except StoreFailed:
        logger.warning("%s: not stored", stored.id)
    return EncodedJson(content)


def add_stored_routes(api: Api, responder: Responder, store: ObjectStore | None) -> None:
    """Add what is done with a chat completion once it is stored.

    Args:
        api: to be extended.
        responder: reads bodies, and has the bounds on answers.
        store: where they are; None where nothing is stored.
    """
    one, completion, kind = f"{CHATS}/<completion_id>", {200: Reply.json(StoredChatCompletion)}, Kind.CHAT_COMPLETION

    @api.get(CHATS, {200: Reply.json(CompletionList)}, LISTS, parameters=(*PAGES["asc"], *FILTERS))
    async def list_chat_completions() -> Response:
        """List stored chat completions, a page at a time."""
        asked, metadata, model = page_asked("asc"), entries("metadata"), query.args.get("model") or None
        if len(metadata) > MAX_METADATA:
            raise RequestError(f"'metadata' has more than {MAX_METADATA} entries.", param="metadata")
        if store is None:
            return json_response(page_object([], [], has_more=False))
        found = await store.list(
            Listing(kind, current_request().owner, asked.limit, asked.ascending, asked.after, model, metadata)
        )
        shown = [StoredCompletion(stored) for stored in found.objects]
        page: CompletionList = page_object(shown, [stored.id for stored in found.objects], has_more=found.has_more)
        return await responder.long_response(page)

    @api.get(one, completion, STORED)
    async def get_chat_completion(completion_id: str) -> Response:
        """Get a stored chat completion."""
        stored = await _kept(store, completion_id).get(kind, completion_id, current_request().owner)
        return await responder.long_response(StoredCompletion(stored))

    @api.post(one, completion, STORED, body=MetadataBody, example={"metadata": {"topic": "geography"}})
    async def update_chat_completion(completion_id: str) -> Response:
        """Update the metadata of a stored chat completion: what is sent replaces all of it."""
        metadata = await responder.parse_body(parse_metadata)
        stored = await _kept(store, completion_id).annotate(kind, completion_id, current_request().owner, metadata)
        return await responder.long_response(StoredCompletion(stored))

    @api.delete(one, {200: Reply.json(DeletedCompletion)}, STORED)
    async def delete_chat_completion(completion_id: str) -> Response:
        """Delete a stored chat completion."""
        await _kept(store, completion_id).delete(kind, completion_id, current_request().owner)
        return json_response(DeletedCompletion(id=completion_id, object="chat.completion.deleted", deleted=True))

    @api.get(f"{one}/messages", {200: Reply.json(MessageList)}, STORED, parameters=PAGES["asc"])
    async def list_chat_messages(completion_id: str) -> Response:
        """List the messages that a stored chat completion answers, a page at a time."""
        asked = page_asked("asc")
        found = await _kept(store, completion_id).page(kind, completion_id, current_request().owner, asked)
        return await responder.long_response(page_json(found))


def _kept(store: ObjectStore | None, completion_id: str) -> ObjectStore:
    """Return where a completion may be.  Raises ObjectNotFound where nothing is stored."""
    if store is None:
        raise ObjectNotFound(Kind.CHAT_COMPLETION, completion_id)
    return store
