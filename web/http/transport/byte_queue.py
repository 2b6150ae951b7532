"""A queue of bytes between two tasks of a connection."""

from __future__ import annotations

import trio


class ByteQueue:
    """An unbounded queue of bytes with any number of producers and one consumer.

    The consumer takes all bytes at once.  That it comes back for more, or closes the queue, tells the producers in
    `join` that it has handled what it took.  Its length is the number of bytes that wait.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._closed = False
        self._not_empty = trio.Event()
        self._handled = trio.Event()
        self._handled.set()

    def __len__(self) -> int:
        """Return the number of bytes that wait."""
        return len(self._bytes)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits, and the consumer, who has not left, has handled all that it took."""
        return self._handled.is_set() and not self._closed

    def put(self, data: bytes | bytearray | memoryview) -> None:
        """Add `data` without waiting; drop it if the queue is closed."""
        if self._closed:
            return
        self._bytes += data
        self._not_empty.set()
        if self._handled.is_set():
            self._handled = trio.Event()

    async def get(self) -> bytes:
        """Wait until something was put, and take all bytes there are."""
        if not self._not_empty.is_set():
            self._handled.set()
        await self._not_empty.wait()
        self._not_empty = trio.Event()
        data = bytes(self._bytes)
        self._bytes.clear()
        return data

    async def join(self) -> None:
        """Wait until all bytes that were put have been handled, or the queue is closed."""
        await self._handled.wait()

    def close(self) -> None:
        """End the consumer's part: drop what is put from now on, and let nobody wait in `join`."""
        self._closed = True
        self._handled.set()
