"""Stored objects, as plain data."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from runtime.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LISTED_BYTES = 16 * MIB
"""Bytes of a page of a listing, from which on it ends: a hundred long objects would take more than any reader may."""


class ObjectTooLarge(RequestError):
    """An object would be larger than all that may be stored."""

    def __init__(self) -> None:
        super().__init__("It would be larger than all that this server stores (--state-size).", code="object_too_large")


class Kind(enum.StrEnum):
    """What an object is; ids are unique within a kind."""

    RESPONSE = "response"
    CHAT_COMPLETION = "chat.completion"
    CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One stored object.

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
        """Bytes that count against the bound of the store."""
        return len(self.body) + sum(len(name) + len(value) for name, value in self.metadata.items()) + OVERHEAD


OVERHEAD = 256
"""Bytes that a row takes beside its body, about."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which objects of a kind to list.

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
    """How much is kept, and how long.

    Attributes:
        size: bytes of all objects; the least recently used go first.
        age: seconds since an object was last used.
    """

    size: int
    age: float
