"""One request to Dynamo's HTTP server, on a connection of its own, and its answer as it comes."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import trio

from runtime.errors import RequestError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

Headers = list[tuple[bytes, bytes]]

OF_ONE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect")
)
"""Headers that are not passed on: they are between a client and whom it is connected to (RFC 9110, 7.6.1)."""

OF_THE_BODY = frozenset((b"content-length", b"content-encoding"))
"""Likewise: a body is passed on as it was read, unpacked."""


class Exchange:
    """Exchange of one request and its answer with the server.

    Args:
        stream: to the server; whoever opened it closes it, which is how a client that hangs up is told of.
        chunk: bytes that are read at a time.
    """

    def __init__(self, stream: trio.abc.Stream, chunk: int) -> None:
        self._stream = stream
        self._chunk = chunk
        self._protocol = h11.Connection(h11.CLIENT)
        self._is_over = False

    async def ask(
        self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> h11.Response:
        """Send a request, and wait for the head of its answer.

        Raises:
            RequestError: it is none that HTTP/1.1 can say.
            Unavailable: the server is gone.
        """
        kept = [(name, value) for name, value in headers if name not in OF_ONE_CONNECTION | OF_THE_BODY]
        if not any(name == b"host" for name, _ in kept):  # of a client that speaks HTTP/1.0
            kept.append((b"host", b"localhost"))
        kept += [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        try:
            data = self._protocol.send(h11.Request(method=method, target=target, headers=kept)) or b""
        except h11.LocalProtocolError as error:
            raise RequestError(f"This is no request that can be passed on: {error}.") from None
        data += self._protocol.send(h11.Data(data=body)) or b""
        data += self._protocol.send(h11.EndOfMessage()) or b""
        try:
            await self._stream.send_all(data)
            while not isinstance(event := await self._next_event(), h11.Response):
                pass  # such as 100 Continue
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            raise Unavailable("The server behind the front door is gone.", retry_after=1) from None
        return event

    async def receive(self) -> bytes:
        """Return what has come of the answer's body, and wait for some; nothing at its end.

        What is behind comes in few large pieces.

        Raises:
            h11.RemoteProtocolError: the server has ended it before it was whole.
        """
        pieces: list[bytes] = []
        while not self._is_over:
            event = self._protocol.next_event() if pieces else await self._next_event()
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif event is h11.NEED_DATA:
                break
            else:
                self._is_over = True
        return b"".join(pieces)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(bytes(await self._stream.receive_some(self._chunk)))
        return event


@asynccontextmanager
async def open_exchange(address: tuple[str, int], chunk: int) -> AsyncIterator[Exchange]:
    """Connect; the connection is closed with the scope.

    Raises:
        Unavailable: nobody listens, or no file may be opened.
    """
    try:
        stream = await trio.open_tcp_stream(*address)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Unavailable("The front door has too many files open (ulimit -n).", retry_after=1) from None
        raise Unavailable("The server behind the front door is gone.", retry_after=1) from None
    async with stream:
        yield Exchange(stream, chunk)
