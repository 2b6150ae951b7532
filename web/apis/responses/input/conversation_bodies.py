"""The bodies of the routes of stored conversations."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from web.apis.responses.input.items import InputItem, stored_items
from web.apis.responses.input.turns import turns_of
from web.bodies.fields import Metadata
from web.bodies.json_size import check_json_size
from web.bodies.strict_model import StrictModel, parse_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.loading.served import ServedModel
    from web.apis.responses.input.items import AnyItem

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
    check_json_size(raw, model.context_length)
    body = parse_model(ConversationBody, raw)
    return _stored(body.items or []), body.metadata or {}


def read_metadata(raw: bytes, model: ServedModel, _: int = 1) -> Mapping[str, str]:
    """Return new metadata.

    Raises:
        RequestError: they are not valid.
    """
    check_json_size(raw, model.context_length)
    return parse_model(MetadataBody, raw).metadata or {}


def read_items(raw: bytes, model: ServedModel, _: int = 1) -> list[Json]:
    """Return items that are to be added.

    Raises:
        RequestError: they are not valid, or one is of a kind that cede does not know.
    """
    check_json_size(raw, model.context_length)
    return _stored(parse_model(ItemsBody, raw).items)


def _stored(items: Sequence[AnyItem]) -> list[Json]:
    turns_of(items, "items")  # what no response could be made from is refused now, and by its own name
    return stored_items(items, uuid.uuid4().hex)
