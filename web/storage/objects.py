"""Stored objects, as plain data, and their items on their way into the store and out of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.common.units import MIB
from runtime.errors import NotFound, RequestError
from web.bodies.json_encoding import EncodedJson
from web.bodies.query import page_object
from web.bodies.responses import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from web.bodies.json_encoding import JsonObject

LISTED_BYTES = 16 * MIB
"""Bytes of a page, from which on it ends: a hundred long objects or items would take more than any reader may."""

OVERHEAD = 256
"""Bytes that an object takes beside its body and its items, about."""

ITEM_OVERHEAD = 64
"""Bytes that an item takes beside its JSON and its id, about."""


def metadata_size(metadata: Mapping[str, str]) -> int:
    """Return the bytes that metadata take as JSON, about."""
    return sum(len(name.encode()) + len(value.encode()) + 6 for name, value in metadata.items())  # `"": "",`


class ObjectTooLarge(RequestError):
    """An object would be larger than all that may be stored."""

    def __init__(self) -> None:
        super().__init__("It would be larger than all that this server stores (--state-size).", code="object_too_large")


class NothingAfter(RequestError):
    """A page is to begin behind what is not there."""

    def __init__(self) -> None:
        super().__init__("Invalid 'after': there is no such item.", param="after")


class DuplicateItem(RequestError):
    """Two items of a list would have the same id."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"There are two items with the id '{item_id[:80]}'; leave one out.", param="input", code="duplicate_item"
        )


def check_ids(ids: Iterable[str]) -> None:
    """Raise DuplicateItem if an id is among them twice."""
    known: set[str] = set()
    for item_id in ids:
        if item_id in known:
            raise DuplicateItem(item_id)
        known.add(item_id)


class TooManyItems(RequestError):
    """A list of items would be longer than it may be."""

    def __init__(self, most: int) -> None:
        super().__init__(f"A conversation has at most {most} items.", param="items")


class ItemNotFound(NotFound):
    """An object has no item of that id."""

    def __init__(self, item_id: str) -> None:
        super().__init__(f"Item with id '{item_id[:80]}' not found.", param="item_id", code="item_not_found")


class Kind(enum.StrEnum):
    """Kind of an object; ids are unique within a kind."""

    RESPONSE = "response"
    CHAT_COMPLETION = "chat.completion"
    CONVERSATION = "conversation"


NAMES = {
    Kind.RESPONSE: ("Response", "response_id", "response_not_found"),
    Kind.CHAT_COMPLETION: ("Chat completion", "completion_id", "completion_not_found"),
    Kind.CONVERSATION: ("Conversation", "conversation", "conversation_not_found"),
}
"""What the error for an object that is not there calls it, the parameter that names it, and the error's code."""


class ObjectNotFound(NotFound):
    """No object of that kind and id is stored for whoever asks."""

    def __init__(self, kind: Kind, id: str) -> None:
        name, param, code = NAMES[kind]
        super().__init__(f"{name} with id '{id[:80]}' not found.", param=param, code=code)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One stored object, without its items.

    Attributes:
        kind: what it is.
        id: unique within its kind.
        body: JSON, whose meaning is up to who stored it.
        created: seconds since the epoch.
        owner: the client that alone may see it; None where the server does not tell clients apart.
        previous: id of the object, of the same kind, that this one continues.
        model: for listings.
        metadata: for listings.
        live: it is still being made; such an object is never pruned.
    """

    kind: Kind
    id: str
    body: bytes
    created: float
    owner: str | None = None
    previous: str | None = None
    model: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    live: bool = False

    @property
    def size(self) -> int:
        """Bytes that count against the bound of the store, beside those of its items."""
        return len(self.body) + metadata_size(self.metadata) + OVERHEAD


@dataclass(frozen=True, slots=True)
class Item:
    """One of the items of an object, which are in an order of their own.

    Attributes:
        id: by which it is found in its object.
        body: JSON, in which the id stands again.
    """

    id: str
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that count against the bound of the store."""
        return len(self.body) + len(self.id) + ITEM_OVERHEAD


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Some of the items of an object.

    Attributes:
        items: in the order that was asked for.
        has_more: whether there are others behind them.
    """

    items: Sequence[Item]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """Selection of the objects of a kind to list.

    Attributes:
        kind: of the objects.
        owner: whose.
        limit: how many at most.
        most_bytes: of their bodies; the one with which there are so many is the last.
        ascending: oldest first; newest first otherwise.
        after: id of the object behind which to begin.
        model: only those of this model.
        metadata: only those that have these entries.
    """

    kind: Kind
    owner: str | None
    limit: int
    ascending: bool = True
    after: str | None = None
    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    most_bytes: int = LISTED_BYTES


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a listing.

    Attributes:
        objects: in their order.
        has_more: whether there are others behind them.
    """

    objects: Sequence[StoredObject]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of how much is kept, and how long.

    Attributes:
        size: bytes of all objects; the least recently used go first.
        age: seconds since an object was last used.
    """

    size: int
    age: float


async def encoded(items: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return items as they are stored: sent as they are, and never parsed for that.  Others run in between.

    Args:
        items: each with an id; their long parts may be `SelfEncoding`.
    """
    return [Item(item["id"], await encode_json(item)) for item in items]


def page_json(page: ItemPage) -> JsonObject:
    """Return a page of stored items in OpenAI's form, as `json_encoding.iter_json` takes it."""
    data = [EncodedJson(item.body) for item in page.items]
    return page_object(data, [item.id for item in page.items], has_more=page.has_more)
