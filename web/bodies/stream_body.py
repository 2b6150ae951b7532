"""Base of all bodies of responses that make what they write next themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from quart.wrappers.response import ResponseBody

if TYPE_CHECKING:
    from types import TracebackType


class StreamBody(ResponseBody):
    """The body of a response that is an iterator of its own.

    It puts nothing away at its end: what it reads from belongs to whoever opened that, and ends with the HTTP request.
    """

    async def __aenter__(self) -> Self:
        """Return the body itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Do nothing."""

    def __aiter__(self) -> Self:
        """Return the body itself."""
        return self

    @abstractmethod
    async def __anext__(self) -> bytes:
        """Return what to write next."""
