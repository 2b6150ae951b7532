"""Bodies of requests: how many bytes of them are held at a time, by all clients together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers.request import TrioBody
from werkzeug.exceptions import RequestEntityTooLarge, RequestTimeout

from runtime.errors import Unavailable
from runtime.units import KIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

SMALL = 64 * KIB
"""Bytes of a body that may use the last eighth of the room, so that a few large ones do not keep out all others."""


class TooManyBodies(Unavailable):
    """The bodies that are being read leave no room for another."""

    code = "bodies_full"

    def __init__(self) -> None:
        super().__init__("The server is reading as many request bodies as it has room for.", retry_after=1)


class BodyBudget:
    """The room that all bodies have, from their first byte until they are understood."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0  # bytes

    def has_room(self, more: int, size: int) -> bool:
        """Whether there is room for `more` bytes of a body of `size` now."""
        most = self._most if size <= SMALL else self._most * 7 // 8
        return self.held + more <= most


class BodyReservation:
    """What one body holds of the room; as a scope, it is given back at the end at the latest."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    def fits(self, size: int) -> bool:
        """Whether there is room for a body of `size` now.  It is taken as the bytes come: to say so costs nothing."""
        return self._budget.has_room(size, size)

    def grow(self, more: int) -> bool:
        """Take room for `more` bytes, if there is."""
        if not self._budget.has_room(more, self._size + more):
            return False
        self._size += more
        self._budget.held += more
        return True

    def release(self) -> None:
        """All of it."""
        self._budget.held -= self._size
        self._size = 0


class ReservedBody(TrioBody):
    """A request's body, which takes room as it comes; one that is refused, or was read, holds nothing."""

    reservation: BodyReservation
    _refusal: Callable[[], Exception] | None = None

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        super().__init__(None, None)
        self._expected = expected_content_length or 0
        self._most = max_content_length
        self._size = 0

    def reserve_from(self, reservation: BodyReservation) -> None:
        """Take room of `reservation`; where its length is known to be too much, the body is refused before it comes."""
        self.reservation = reservation
        if self._is_too_large(self._expected):
            self._refuse(RequestEntityTooLarge)
        elif not reservation.fits(self._expected):
            self._refuse(TooManyBodies)

    def append(self, data: bytes) -> None:
        """Take what has come, unless the body is refused."""
        if self._refusal is not None:
            return
        self._size += len(data)
        if self._is_too_large(self._size):
            self._refuse(RequestEntityTooLarge)
        elif not self.reservation.grow(len(data)):
            self._refuse(TooManyBodies)
        else:
            self._data += data

    async def read(self, seconds: float) -> bytes:
        """The whole body, once.  Its room is kept until its reader gives it back, or the request ends.

        Raises RequestEntityTooLarge, TooManyBodies, or RequestTimeout where it takes longer than so many `seconds`.
        """
        with trio.move_on_after(seconds) as clock:
            await self._complete.wait()
        if clock.cancelled_caught:
            self._refuse(RequestTimeout)
        if self._refusal is not None:
            raise self._refusal()
        data, self._data = bytes(self._data), bytearray()
        return data

    def _is_too_large(self, size: int) -> bool:
        return self._most is not None and size > self._most

    def _refuse(self, refusal: Callable[[], Exception]) -> None:
        self._refusal = refusal  # not an exception: its traceback would lead back here, and keep the body
        self._data = bytearray()
        self.reservation.release()
        self.set_complete()
