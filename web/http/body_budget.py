"""A budget for the bytes of all request bodies that are held at a time."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers.request import TrioBody
from werkzeug.exceptions import RequestEntityTooLarge, RequestTimeout

from runtime.common.units import KIB
from runtime.errors import RequestError, Unavailable, UnreadableEncoding

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

SMALL_BODY = 64 * KIB
"""Bytes up to which a body may use the last eighth of the budget: a few large ones must not keep out all others."""

PIECE = 64 * KIB
"""Bytes that are unpacked at a time; other tasks run in between."""

BODY_TIMEOUT = 60
"""Seconds for the upload of a whole body."""


class TooManyBodies(Unavailable):
    """The bodies that are being read leave no room for another."""

    code = "bodies_full"

    def __init__(self) -> None:
        super().__init__("The server is reading as many request bodies as it has room for.", retry_after=1)


class BodyBudget:
    """The bytes that all bodies together may take, from their first byte until they are parsed.

    Args:
        limit: bytes.

    Attributes:
        held: bytes that are taken now.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    def has_space(self, more: int, size: int) -> bool:
        """Return whether there is room for `more` bytes of a body of `size` bytes."""
        limit = self._limit if size <= SMALL_BODY else self._limit * 7 // 8
        return self.held + more <= limit


class BodyReservation:
    """The part of the budget that one body takes.  It is released at the end of its scope at the latest.

    Args:
        budget: that all bodies share.
    """

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._size = 0

    def __enter__(self) -> Self:
        """Return the reservation itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Release the reservation."""
        self.release()

    def fits(self, size: int) -> bool:
        """Return whether there is room for a body of `size` bytes.  It is taken only as the bytes come."""
        return self._budget.has_space(size, size)

    def grow(self, more: int) -> bool:
        """Take `more` bytes of the budget if there is room, and return whether there was."""
        if not self._budget.has_space(more, self._size + more):
            return False
        self._size += more
        self._budget.held += more
        return True

    def release(self) -> None:
        """Give everything back to the budget."""
        self._budget.held -= self._size
        self._size = 0


class BudgetedBody(TrioBody):
    """A request's body, which takes its share of the budget as it comes.  A refused body holds nothing.

    Attributes:
        reservation: of the budget; held until whoever reads the body releases it, or the request ends.
    """

    reservation: BodyReservation

    def __init__(self, expected_content_length: int | None, max_content_length: int | None) -> None:
        super().__init__(None, None)
        self._expected = expected_content_length or 0
        self._limit = max_content_length
        self._size = 0
        self._packed = False
        # Makes the error, and is not the error itself: its traceback would lead back here, and keep the body.
        self._refusal: Callable[[], Exception] | None = None

    def reserve_from(self, reservation: BodyReservation) -> None:
        """Take from `reservation`.  If the announced length is too much, refuse the body before it comes."""
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
        """Wait for the whole body and return it, once.

        Raises:
            RequestEntityTooLarge: the body is longer than its limit.
            TooManyBodies: the budget has no room for it.
            RequestTimeout: it takes longer than `seconds`.
            RequestError: it is compressed, and broken or in a way that is not read.
        """
        with trio.move_on_after(seconds) as timer:
            await self._complete.wait()
        if timer.cancelled_caught:
            self._refuse(RequestTimeout)
        if self._refusal is not None:
            raise self._refusal()
        data, self._data = bytes(self._data), bytearray()
        return await self._unpacked(data) if self._packed else data

    def packed_as(self, encoding: str) -> None:
        """Say how the body is compressed, which decides how it is read: the value of `Content-Encoding`."""
        named = encoding.strip().lower()
        self._packed = named not in ("", "identity")
        if named not in ("", "identity", "gzip", "x-gzip", "deflate"):
            self._refuse(partial(UnreadableEncoding, f"A body in the encoding {named[:64]!r} is not read; gzip is."))

    async def _unpacked(self, data: bytes) -> bytes:
        """Return what a compressed body holds.  Both count against the budget, and the limit holds for what it becomes.

        Raises:
            RequestError: it is broken.
            RequestEntityTooLarge, TooManyBodies: as `read` does.
        """
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip's header or zlib's
        unpacked = bytearray()
        try:
            while not unpacker.eof:
                piece = unpacker.decompress(data, PIECE)
                data = unpacker.unconsumed_tail
                unpacked += piece
                if self._is_too_large(len(unpacked)):
                    self._refuse(RequestEntityTooLarge)
                elif not self.reservation.grow(len(piece)):
                    self._refuse(TooManyBodies)
                if self._refusal is not None:
                    raise self._refusal()
                if not piece and not data:
                    break
                await trio.lowlevel.checkpoint()
        except zlib.error as error:
            raise RequestError(f"The compressed body is broken: {error}.") from None
        if not unpacker.eof or unpacker.unused_data:
            raise RequestError("The compressed body is broken: it does not end where it should.")
        return bytes(unpacked)

    def _is_too_large(self, size: int) -> bool:
        return self._limit is not None and size > self._limit

    def _refuse(self, refusal: Callable[[], Exception]) -> None:
        self._refusal = refusal
        self._data = bytearray()
        self.reservation.release()
        self.set_complete()
