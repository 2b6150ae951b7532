"""Routes of an API, each declared once, where its handler is: with it the application and its OpenAPI document have it.

The bodies are the very models that requests are validated with, and the answers the very types that are written
(`TypedDict`s, which mypy checks; clients have to expect fields that are not in them).  Tests hold real answers against
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from collections.abc import Set as AbstractSet

    from pydantic import BaseModel
    from quart_trio.wrappers import TrioResponse as Response
    from typing_extensions import Unpack

    from web.http.asgi import ScopedApp

    Handler = Callable[..., Awaitable[Response]]
    Declare = Callable[[Handler], Handler]

JSON = "application/json"
EVENTS = "text/event-stream"

Json = dict[str, Any]
Type = Any
"""What pydantic makes a schema of: a model, a `TypedDict`, a dataclass, or a named union of these."""

ANY_ROUTE = frozenset({401, 403, 500})
"""Statuses of refusals by who asks, and of failures."""

READS_BODY = frozenset({400, 408, 413, 415, 429})
"""Statuses of what is wrong with a body, or with how it comes; or the client's API key may send none now."""

GENERATES = frozenset({503, 504})
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


class Declared(TypedDict, total=False):
    """What a route may have beside its answers: see `Operation`."""

    body: type[BaseModel]
    example: Json
    parameters: tuple[Parameter, ...]
    open: bool
    endless: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        method: in lower case.
        path: with names in braces.
        name: of the operation, for programs; no other operation of the server has it.
        summary: a few words.
        replies: by status.
        errors: the other statuses, each answered with the API's error object.
        body: the model of a body in JSON; None where there is none.
        example: of a body, in order.
        parameters: of the query string and the headers; and those of the path that want more said than their name.
        open: whether no key is needed.
        endless: the answer is a stream that does not end by itself; `x-endless` in the document.
    """

    method: str
    path: str
    name: str
    summary: str
    replies: Mapping[int, Reply]
    errors: AbstractSet[int]
    body: type[BaseModel] | None = None
    example: Json | None = None
    parameters: tuple[Parameter, ...] = ()
    open: bool = False
    endless: bool = False


class Api:
    """The routes that have a shape of errors, and words, in common.

    Each is added by a decorator of its handler, whose name and whose docstring's first line become the operation's.

    Args:
        app: to be extended.
        name: a word; also what the names of its schemas begin with.
        about: one sentence.
        error: the type of its errors.
        errors: the statuses of errors that any of its routes may have.

    Attributes:
        app: that its routes are added to.
        operations: those of its routes.
    """

    def __init__(
        self, app: ScopedApp, name: str, about: str, error: Type, errors: AbstractSet[int] = ANY_ROUTE
    ) -> None:
        self.app = app
        self.name = name
        self.about = about
        self.error = error
        self.errors = errors
        self.operations: list[Operation] = []
        apis_of(app).append(self)

    def route(
        self,
        method: str,
        path: str,
        replies: Mapping[int, Reply],
        errors: AbstractSet[int] = frozenset(),
        *,
        name: str | None = None,
        summary: str | None = None,
        **declared: Unpack[Declared],
    ) -> Declare:
        """Add a route.

        Args:
            method: in lower case.
            path: as Quart takes it.
            replies: as an `Operation` has them, like what follows.
            errors: those statuses that neither all routes of the API have nor all that take a body.
            name: the handler's unless given.
            summary: the first line of the handler's docstring unless given.
            declared: the rest.
        """
        taken = READS_BODY if "body" in declared else frozenset[int]()

        def add(handler: Handler) -> Handler:
            named = name or handler.__name__
            text = summary or (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            in_braces = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path)
            all_errors = self.errors | taken | errors
            self.operations.append(Operation(method, in_braces, named, text, replies, all_errors, **declared))
            self.app.add_url_rule(path, named, handler, methods=[method.upper()])
            return handler

        return add

    def get(
        self, path: str, replies: Mapping[int, Reply], errors: AbstractSet[int] = frozenset(), **more: Unpack[Declared]
    ) -> Declare:
        """Add a route that is asked by GET; `route` says of what."""
        return self.route("get", path, replies, errors, **more)

    def post(
        self, path: str, replies: Mapping[int, Reply], errors: AbstractSet[int] = frozenset(), **more: Unpack[Declared]
    ) -> Declare:
        """Add one that is asked by POST."""
        return self.route("post", path, replies, errors, **more)

    def delete(
        self, path: str, replies: Mapping[int, Reply], errors: AbstractSet[int] = frozenset(), **more: Unpack[Declared]
    ) -> Declare:
        """Add one that is asked by DELETE."""
        return self.route("delete", path, replies, errors, **more)


def apis_of(app: ScopedApp) -> list[Api]:
    """Return the APIs of an application, in the order in which they were made."""
    apis: list[Api] = app.extensions.setdefault("cede.apis", [])
    return apis


def operations_of(app: ScopedApp) -> list[Operation]:
    """Return all operations of an application."""
    return [operation for api in apis_of(app) for operation in api.operations]


def path_pattern(path: str) -> str:
    """Return a regular expression for the paths that an operation's stands for."""
    return "".join(".+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", path))
