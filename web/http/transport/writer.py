"""Writes a connection's bytes, in a task of its own where they have to wait, and ends it if its reader stalls."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import trio

from web.http.transport.byte_queue import ByteQueue

if TYPE_CHECKING:
    from collections.abc import Callable

_TLS_RECORD = 2**14
"""Bytes in one TLS record: the smallest progress that can be seen of an `SSLStream`."""

BURST = 2**16
"""Bytes that are written at once in a row; then the task writes, so that other tasks have their turn."""

Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]


def socket_of(stream: Stream) -> trio.socket.SocketType:
    """Return the socket below a stream, whether or not there is TLS in between."""
    return (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket


class Writer:
    """Writes to a stream what is put into it.

    Bytes belong to the connection and not to the request that made them, because half a write cannot be taken back.
    So a request hands them over, and if some have to wait it waits for them in `join`.  The connection's end stops the
    writer, and with it all who wait.

    Args:
        stream: where to write.
        share: bytes that the reader has to take within each stall timeout, of those that wait; fewer if fewer wait.
        stall_timeout: seconds.
        on_stall: called once if the reader does not take its share, before the writer ends.
    """

    def __init__(self, stream: Stream, *, share: int, stall_timeout: float, on_stall: Callable[[], None]) -> None:
        self._stream = stream
        self._socket = socket_of(stream)
        self._share = share
        self._stall_timeout = stall_timeout
        self._on_stall = on_stall
        self._queue = ByteQueue()
        self._at_once = 0  # bytes that were written without the task since its last turn

    @property
    def is_idle(self) -> bool:
        """Return whether all bytes that were put are written, and more would be."""
        return self._queue.is_idle

    def put(self, data: bytes | memoryview) -> None:
        """Add bytes to be written, without waiting."""
        self._queue.put(data)

    def write_nowait(self, data: bytes) -> None:
        """Write as many bytes as the socket takes at once, unless others wait already, and put the rest.

        Nearly always it takes them all.  Then neither a task has to wake in order to write them, nor another one
        because they are written: most of what a small event of a stream costs.  Who writes much without a pause is
        made to wait by `join` once in `BURST` bytes, however fast its reader is.
        """
        written, room = 0, BURST - self._at_once
        if room > 0 and self._queue.is_idle and not isinstance(self._stream, trio.SSLStream):
            # Trio's sockets never block; no `send` of theirs is synchronous, and to the kernel this is the same call.
            with suppress(OSError):  # there is no room now; or what is wrong the task will find, and end with
                written = os.write(self._socket.fileno(), memoryview(data)[:room])
            self._at_once += written
        if written < len(data):
            self.put(memoryview(data)[written:])

    async def join(self) -> None:
        """Wait until all bytes that were put are written, or the writer has ended."""
        await self._queue.join()

    async def run(self) -> None:
        """Write until cancelled.

        What is put while a write waits goes out with the next one.  So a reader who lags finds more waiting, and has to
        take the whole share.  If a write is cut short, the socket is set to be reset when it closes: this tells the
        client, and frees what the kernel still holds for it.

        Raises:
            trio.TooSlowError: the reader did not take its share in time.
        """
        unsent = memoryview(b"")
        try:
            while True:
                unsent = memoryview(await self._queue.get())
                self._at_once = 0
                while unsent:
                    unsent = await self._send_share(unsent)
        finally:
            self._queue.close()
            if unsent:
                with suppress(OSError):
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _send_share(self, unsent: memoryview) -> memoryview:
        """Send at least the reader's share of `unsent` in time, and return the rest."""
        enough = max(0, len(unsent) - self._share)
        with trio.move_on_after(self._stall_timeout) as timer:
            while len(unsent) > enough:
                unsent = unsent[await self.send_some(unsent) :]
        if timer.cancelled_caught:
            self._on_stall()
            raise trio.TooSlowError(f"its reader took too little for {self._stall_timeout:g} s")
        return unsent

    async def send_some(self, data: memoryview) -> int:
        """Send as many bytes of `data` as go at once, and return their number."""
        if isinstance(self._stream, trio.SSLStream):
            record = data[:_TLS_RECORD]
            await self._stream.send_all(record)
            return len(record)
        return await self._socket.send(data)
