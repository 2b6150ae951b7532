"""The events of an answer: kept, so that several may follow it, and come back to it."""

from __future__ import annotations

import trio

from web.bodies.page_buffer import PageBuffer
from web.bodies.responses import StreamBody

FRAME_BYTES = 56
"""Of an event beside its bytes: the object's head, what its size is rounded up to, and its place in the list."""


class EventLog:
    """Events in the order of their numbers, which begin at 0, each encoded.  One task adds them; any number read.

    Args:
        end: bytes with which each event ends, and which it does not have before.
        numbered: whether an event says its number, as server-sent events do: the `id` that a client comes back with.

    Attributes:
        size: bytes of all events.
        ended: whether nothing follows.
    """

    def __init__(self, end: bytes = b"\n\n", *, numbered: bool = False) -> None:
        self._end = end
        self._numbered = numbered
        self._frames: list[bytes] = []
        self._readers = trio.lowlevel.ParkingLot()
        self.size = 0
        self.ended = False

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._frames)

    @property
    def held(self) -> int:
        """Bytes that all events take."""
        return self.size + FRAME_BYTES * len(self._frames)

    def write(self, data: bytes) -> None:
        """Add the next events, each whole."""
        *events, rest = data.split(self._end)
        assert not rest, "an event that is not whole"
        for event in events:
            self.append(event + self._end)

    def append(self, frame: bytes) -> None:
        """Add the next event."""
        if self._numbered:
            frame = b"id: %d\n" % len(self._frames) + frame
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


class AttachedStream(StreamBody):
    """The body of a response that follows a log.  Who stops reading it stops nothing else.

    Args:
        log: to be followed.
        position: number of the first event to be sent.
        write_bytes: of one write.
        greeting: bytes to be sent before all events, at once, so that the response's headers come with them.
    """

    def __init__(self, log: EventLog, position: int, write_bytes: int, greeting: bytes = b"") -> None:
        self._log = log
        self._position = position
        self._write_bytes = write_bytes
        self._unsent = PageBuffer(write_bytes)
        self._unsent.write(greeting)

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
