"""The events of a response in the background: kept, so that several may follow it, and come back to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart.wrappers.response import ResponseBody

from web.bodies.page_buffer import PageBuffer

if TYPE_CHECKING:
    from types import TracebackType


class EventLog:
    """Events in the order of their numbers, each encoded.  One task adds them; any number of tasks read.

    Attributes:
        size: bytes of all events.
        ended: whether nothing follows.
    """

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._readers = trio.lowlevel.ParkingLot()
        self.size = 0
        self.ended = False

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._frames)

    def append(self, frame: bytes) -> None:
        """Add the next event."""
        self._frames.append(frame)
        self.size += len(frame)
        self._readers.unpark_all()

    def end(self) -> None:
        """Say that nothing follows."""
        self.ended = True
        self._readers.unpark_all()

    async def read(self, position: int) -> bytes | None:
        """Return the event of number `position`, once it is there; None if there is none any more."""
        while position >= len(self._frames) and not self.ended:
            await self._readers.park()
        await trio.lowlevel.checkpoint()
        return self.read_nowait(position)

    def read_nowait(self, position: int) -> bytes | None:
        """Return the event of number `position`; None if it is not there."""
        return self._frames[position] if position < len(self._frames) else None


class AttachedStream(ResponseBody):
    """The body of a response that follows a log.  Who stops reading it stops nothing else.

    Args:
        log: to be followed.
        position: number of the first event to be sent.
        write_bytes: of one write.
    """

    def __init__(self, log: EventLog, position: int, write_bytes: int) -> None:
        self._log = log
        self._position = position
        self._write_bytes = write_bytes
        self._unsent = PageBuffer(write_bytes)

    async def __aenter__(self) -> AttachedStream:
        """Return the body itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Do nothing: the log is not this reader's."""

    def __aiter__(self) -> AttachedStream:
        """Return the body itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return what to write next: the events that are there, as far as they fit into a write."""
        if self._unsent:
            await trio.lowlevel.checkpoint()
        elif (frame := await self._log.read(self._position)) is None:
            raise StopAsyncIteration
        else:
            self._take(frame)
        while len(self._unsent) < self._write_bytes and (next_frame := self._log.read_nowait(self._position)):
            self._take(next_frame)
        return self._unsent.take()

    def _take(self, frame: bytes) -> None:
        self._position += 1
        self._unsent.write(frame)
