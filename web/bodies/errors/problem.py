"""Problem of a request, and its shapes: how each API writes one, and which API a request was for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from runtime.common.log_text import shortened
from runtime.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from werkzeug.datastructures import Headers

    from runtime.errors import CedeError
    from web.bodies.json_encoding import JsonObject

logger = logging.getLogger("cede.web")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that is to be told to a client.

    Attributes:
        message: one or more sentences for whoever reads the client's log.
        kind: in the words of `runtime.errors`, which are the `type`s of OpenAI's error objects.
        status: the HTTP status, unless the API has another one for it.
        param: the request's field at fault.
        code: for programs.
        retry_after: seconds until it makes sense to try again; None where it does not.
    """

    message: str
    kind: str
    status: int
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None

    @classmethod
    def of(cls, error: CedeError) -> Self:
        """Describe an error that was raised on purpose; a name in it may be as long as a client likes."""
        message = shortened(str(error))
        return cls(message, error.kind, error.status, error.param, error.code, error.retry_after)


INTERNAL = Problem("The server failed to answer; its log says why.", "server_error", 500, code="internal_error")
"""Stands for every error of the server itself, whose own message is for the log alone."""


def report(error: CedeError) -> None:
    """Log an error that is the server's own fault."""
    if error.status >= 500 and not isinstance(error, Unavailable):
        logger.error("%s: %s", type(error).__name__, error, exc_info=error)


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """The error objects of one API.

    Attributes:
        body: makes the error object of a problem, and of the id of the engine's request, None where there is none yet.
        status: tells the HTTP status that this API has for a problem.
    """

    body: Callable[[Problem, str | None], JsonObject]
    status: Callable[[Problem], int] = attrgetter("status")


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
