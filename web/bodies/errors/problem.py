"""Problem of a request, whichever API it was for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.log_text import shortened
from runtime.errors import Unavailable

if TYPE_CHECKING:
    from typing import Self

    from runtime.errors import CedeError

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
