"""Bytes between two tasks of a connection."""

import trio


class ByteQueue:
    """Bytes put by any number of tasks and taken by one, which takes all there are, until it closes this."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._closed = False
        self._not_empty = trio.Event()
        self._handled = trio.Event()
        self._handled.set()

    def __len__(self) -> int:
        return len(self._bytes)

    def put(self, data: bytes | bytearray) -> None:
        """Add `data`, at once; after `close` it is dropped."""
        if self._closed:
            return
        self._bytes += data
        self._not_empty.set()
        if self._handled.is_set():
            self._handled = trio.Event()

    async def get(self) -> bytes:
        """All bytes put so far, at least one put; coming back for more says that the last are dealt with."""
        if not self._not_empty.is_set():
            self._handled.set()
        await self._not_empty.wait()
        self._not_empty = trio.Event()
        data = bytes(self._bytes)
        self._bytes.clear()
        return data

    async def join(self) -> None:
        """Wait until all that was put has been dealt with, or never will be."""
        await self._handled.wait()

    def close(self) -> None:
        """The taking task ends: whoever waits for it need not wait any more."""
        self._closed = True
        self._handled.set()
