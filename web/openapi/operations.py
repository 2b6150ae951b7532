"""Operations of an API, and what they take and answer: plain data, of which `web.openapi.document` makes the document.

The bodies are the very models that requests are validated with, and the answers the very types that are written
(`TypedDict`s, which mypy checks; clients have to expect fields that are not in them).  Tests hold real answers against
them, and the routes of the application against the operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

JSON = "application/json"
EVENTS = "text/event-stream"

Json = dict[str, Any]
Type = Any
"""What pydantic makes a schema of: a model, a `TypedDict`, a dataclass, or a named union of these."""

ANY_ROUTE = frozenset({401, 403, 500})
"""Statuses of refusals by who asks, and of failures."""

READS_BODY = frozenset({400, 408, 413, 415, 429})
"""Statuses of what is wrong with a body, or with how it comes; or the client's API key may send none now."""

GENERATES = READS_BODY | {503, 504}
"""Statuses of a request that the engine is to run."""

LISTS = frozenset({400, 503})
"""Statuses of an answer that may be too long for who reads it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query string, the path or the headers.

    Attributes:
        name: in the request.
        about: one sentence.
        schema: JSON Schema's.
        place: where it stands.
        deep: it is an object, whose entries are written as `name[key]=value`.
    """

    name: str
    about: str
    schema: Json = field(default_factory=lambda: {"type": "string"})
    place: Literal["query", "path", "header"] = "query"
    deep: bool = False


def _page_parameters(default: Literal["asc", "desc"]) -> tuple[Parameter, ...]:
    other = {"asc": "desc", "desc": "asc"}[default]
    return (
        Parameter("limit", "Entries of the page, from 1 to 100; 20 unless given.", {"type": "integer"}),
        Parameter("order", f"`{default}` unless `{other}` is given; `desc`: newest first.", {"enum": ["asc", "desc"]}),
        Parameter("after", "Id of the entry behind which to begin."),
    )


PAGES = {order: _page_parameters(order) for order in ("asc", "desc")}
"""The parameters of a list that comes in pages, by the order that it has unless another is given."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of one status.

    Attributes:
        about: one sentence.
        content: the type of each media type that it may have.  That of a media type which is a sequence, such as
            server-sent events, is of one item; None where it is no JSON.
    """

    about: str
    content: Mapping[str, Type | None] = field(default_factory=dict)

    @classmethod
    def json(cls, type_: Type, about: str = "") -> Reply:
        """One that is JSON."""
        return cls(about, {JSON: type_})

    @classmethod
    def generated(cls, whole: Type, item: Type, media_type: str = EVENTS) -> Reply:
        """One that is sent whole, or as a stream of items of this media type."""
        return cls("The answer: whole, or as a stream where `stream` asks for one.", {JSON: whole, media_type: item})


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        method: in lower case.
        path: with names in braces.
        name: of the operation, for programs; no other operation of the server has it.
        summary: a few words.
        replies: by status.
        body: the model of a body in JSON; None where there is none.
        example: of a body, in order.
        parameters: of the query string and the headers; and those of the path that want more said than their name.
        errors: the other statuses, each answered with the API's error object.
        open: whether no key is needed.
        endless: the answer is a stream that does not end by itself; `x-endless` in the document.
    """

    method: str
    path: str
    name: str
    summary: str
    replies: Mapping[int, Reply]
    body: type[BaseModel] | None = None
    example: Json | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: frozenset[int] = ANY_ROUTE
    open: bool = False
    endless: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """The operations that have a shape of errors, and words, in common.

    Attributes:
        name: a word; also what the names of its schemas begin with.
        about: one sentence.
        error: the type of its errors.
        operations: those of its routes.
    """

    name: str
    about: str
    error: Type
    operations: tuple[Operation, ...]


def path_pattern(path: str) -> str:
    """Return a regular expression for the paths that an operation's stands for."""
    return "".join(".+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", path))
