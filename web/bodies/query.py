"""Query strings: flags, numbers, and pages of lists, as OpenAI's APIs page them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from quart import request as query
from typing_extensions import TypedDict

from runtime.errors import RequestError
from web.bodies.json_encoding import Long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from web.bodies.json_encoding import SelfEncoding

EntryT = TypeVar("EntryT")

DEFAULT_LISTED = 20
MAX_LISTED = 100
"""Entries of one page: unless it is said how many, and at most."""


@dataclass(frozen=True, slots=True)
class PageAsked:
    """Page of a list that is asked for.

    Attributes:
        limit: entries at most.
        ascending: the oldest first; else the newest.
        after: id of the entry behind which it begins; None for the first page.
    """

    limit: int
    ascending: bool
    after: str | None


def page_asked(default: Literal["asc", "desc"]) -> PageAsked:
    """Return which page the current request's `limit`, `order` and `after` ask for.

    Args:
        default: the order unless one is given.

    Raises:
        RequestError: one of them is not valid.
    """
    limit = number("limit", DEFAULT_LISTED, least=1, most=MAX_LISTED)
    order = query.args.get("order", default)
    if order not in ("asc", "desc"):
        raise RequestError("Invalid 'order': it should be 'asc' or 'desc'.", param="order")
    return PageAsked(limit, order == "asc", query.args.get("after") or None)


class Page(TypedDict, Generic[EntryT]):
    """Object of a page."""

    object: Literal["list"]
    data: list[Long[EntryT]]
    first_id: str | None
    last_id: str | None
    has_more: bool


def page_object(data: Sequence[SelfEncoding[EntryT]], ids: list[str], *, has_more: bool) -> Page[EntryT]:
    """Return the object of a page.

    Args:
        data: its entries.
        ids: of the entries.
        has_more: whether others follow.
    """
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": list(data), "first_id": first, "last_id": last, "has_more": has_more}


def entries(name: str) -> dict[str, str]:
    """Return what the query string has under `name[...]`, by what stands between the brackets.

    Raises:
        RequestError: nothing stands there, as in lists of other APIs.
    """
    head, tail = f"{name}[", "]"
    if head + tail in query.args:
        raise RequestError(f"Invalid '{name}[]': between the brackets stands the entry's name.", param=name)
    return {
        key[len(head) : -len(tail)]: value
        for key, value in query.args.items()
        if key.startswith(head) and key.endswith(tail)
    }


def flag(name: str) -> bool:
    """Return a truth value of the query string.  Raises RequestError."""
    given = query.args.get(name, "false").lower()
    if given not in ("true", "false"):
        raise RequestError(f"Invalid '{name}': it should be true or false.", param=name)
    return given == "true"


def number(name: str, default: int, *, least: int, most: int = 10**9) -> int:
    """Return a number of the query string.  Raises RequestError."""
    given = query.args.get(name)
    if given is None:
        return default
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(given) < 11 and least <= int(given) <= most):
        raise RequestError(f"Invalid '{name}': it should be a whole number from {least} to {most}.", param=name)
    return int(given)
