"""Shapes of errors: how each API writes one, and which API a request was for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.datastructures import Headers

    from web.bodies.errors.problem import Problem
    from web.bodies.json_encoding import JsonObject


class ErrorShape(Protocol):
    """The error objects of one API.  Pure: it holds nothing of a request."""

    def status(self, problem: Problem) -> int:
        """Return the HTTP status that this API has for a problem."""

    def body(self, problem: Problem, request_id: str | None) -> JsonObject:
        """Return the error object.

        Args:
            problem: to be told.
            request_id: of the engine's request; None where there is none yet.
        """


@dataclass(frozen=True, slots=True)
class ErrorRoute:
    """A part of the URLs, and the shape of the errors there.

    Attributes:
        prefix: a path; it stands for itself and for all that lies below it.
        shape: of the errors.
        header: the name of a request header without which the route does not count, where two APIs share a path; None
            where they do not.
    """

    prefix: str
    shape: ErrorShape
    header: str | None = None

    def matches(self, path: str, headers: Headers) -> bool:
        """Return whether a request is for this part of the URLs."""
        below = path == self.prefix or path.startswith(f"{self.prefix}/")
        return below and (self.header is None or self.header in headers)


@dataclass(frozen=True, slots=True)
class ErrorShapes:
    """The shapes of an application's errors.

    Attributes:
        default: where no route matches.
        routes: of which the first that matches decides.
    """

    default: ErrorShape
    routes: Sequence[ErrorRoute] = ()

    def shape(self, path: str, headers: Headers) -> ErrorShape:
        """Return the shape of the errors of a request.

        Args:
            path: of its URL.
            headers: of the request.
        """
        return next((route.shape for route in self.routes if route.matches(path, headers)), self.default)
