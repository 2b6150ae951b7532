"""HTTP/1.1 and HTTP/2 on Trio for clients that leave whenever they like.

Both kinds of `Exchange` are one request each.  `Http1` has a connection of its own, `Http2` a stream of one that it may
share; what it has not read yet is not acknowledged, so a slow reader closes its window.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h11
import trio

from tests.live.server import Gone, Json

Address = tuple[str, int]


class Exchange(Protocol):
    """One request and its response.  What the other side has ended raises Gone."""

    async def ask(self, method: str, path: str, content: bytes = b"", *, part: float = 1.0) -> None:
        """Send a request, or only the first `part` of it."""

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Status and headers."""

    async def receive(self) -> bytes:
        """The next piece of the body, empty at its end."""

    async def leave(self, *, rudely: bool) -> None:
        """Hang up, or end a response that was read whole.  Whoever is rude resets the connection."""


class Events:
    """The events of a streamed completion."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._buffer = b""
        self.tokens: list[int] = []
        self.finish_reason: str | None = None
        self.cancelled: str | None = None
        self.timings: Json = {}
        self.errors: list[Json] = []

    async def read(self, tokens: float = math.inf, *, pause: float = 0.0) -> bool:
        """Read on until so many tokens have come; False if the response ended before.

        Args:
            tokens: in all.
            pause: seconds before each look at the socket.
        """
        while len(self.tokens) < tokens:
            await trio.sleep(pause)
            data = await self._exchange.receive()
            if not data:
                return False
            *events, self._buffer = (self._buffer + data).split(b"\n\n")
            for event in events:
                if event.startswith(b"data: {"):
                    self._take(json.loads(event.removeprefix(b"data: ")))
        return True

    def _take(self, event: Json) -> None:
        if "error" in event:
            self.errors.append(event["error"])
        for choice in event.get("choices", ()):
            self.tokens += choice.get("token_ids", ())
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            self.cancelled = choice.get("cede", {}).get("cancelled")
            self.timings = choice.get("timings", self.timings)
        self.timings = event.get("timings", self.timings)


async def fetch(address: Address, path: str, method: str = "GET") -> tuple[int, Any]:
    """One whole exchange on a connection of its own: the status, and the JSON of the answer."""
    async with open_http1(address) as exchange:
        await exchange.ask(method, path)
        status, _ = await exchange.head()
        body = b""
        while data := await exchange.receive():
            body += data
        return status, json.loads(body)


# --- HTTP/1.1 -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_http1(address: Address, receive_buffer: int = 0) -> AsyncIterator[Http1]:
    """An exchange on a new connection, which is closed with the scope."""
    async with await _connect(address, receive_buffer) as stream:
        yield Http1(stream)


class Http1:
    """See `Exchange`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._protocol = h11.Connection(h11.CLIENT)

    async def ask(
        self, method: str, path: str, content: bytes = b"", *, part: float = 1.0, more: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Send a request, or the first part of one; `more` are headers."""
        headers = [("host", "localhost"), ("content-length", str(len(content))), *more]
        data = self._protocol.send(h11.Request(method=method, target=path, headers=headers)) or b""
        data += self._protocol.send(h11.Data(data=content)) or b""
        data += self._protocol.send(h11.EndOfMessage()) or b""
        try:
            await self._stream.send_all(data[: math.ceil(part * len(data))])
        except trio.BrokenResourceError as error:
            raise Gone from error

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Return the status and the headers of the answer."""
        event = await self._next_event()
        assert isinstance(event, h11.Response), event
        return event.status_code, {name.decode(): value.decode() for name, value in event.headers}

    async def receive(self) -> bytes:
        """Return more of the answer; nothing at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def leave(self, *, rudely: bool) -> None:
        """Close the connection, with a reset if rudely."""
        if rudely:
            self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self._stream)

    async def _next_event(self) -> h11.Event:
        while True:
            try:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA:
                    self._protocol.receive_data(await self._stream.receive_some(2**16))
                    continue
            except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
                raise Gone from error
            assert isinstance(event, h11.Event), event
            return event


# --- HTTP/2 ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_http2(address: Address) -> AsyncIterator[Http2Connection]:
    """A connection by prior knowledge, which is closed with the scope."""
    async with await _connect(address) as stream, trio.open_nursery() as nursery:
        connection = Http2Connection(stream)
        nursery.start_soon(connection.run)
        yield connection
        nursery.cancel_scope.cancel()


class Http2Connection:
    """A connection with any number of streams.  Once it has `ended`, each of them raises Gone."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.protocol = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.ended = False
        self.end = "the connection has ended"  # why, as far as the other side has said
        self._stream = stream
        self._sending = trio.Lock()
        self._progress = trio.Event()  # set, and replaced, whenever something has been read
        self._streams: dict[int, trio.MemorySendChannel[h2.events.Event]] = {}
        self.protocol.initiate_connection()

    async def run(self) -> None:
        """Read until the connection ends."""
        try:
            await self.flush()
            while data := await self._stream.receive_some(2**16):
                for event in self.protocol.receive_data(data):
                    if isinstance(event, h2.events.ConnectionTerminated):
                        self.end = f"{event}"
                    if (number := getattr(event, "stream_id", None)) in self._streams:
                        self._streams[number].send_nowait(event)
                await self.flush()
                self._tell_progress()
        except (trio.BrokenResourceError, trio.ClosedResourceError, Gone, h2.exceptions.ProtocolError) as error:
            self.end = f"{self.end}: {error!r}"  # whoever has a stream is told below
        finally:
            self.ended = True
            for channel in self._streams.values():
                channel.close()
            self._tell_progress()

    def register(self, number: int) -> trio.MemoryReceiveChannel[h2.events.Event]:
        """Return where the events of a new stream come."""
        self._streams[number], events = trio.open_memory_channel[h2.events.Event](math.inf)
        return events

    def forget(self, number: int) -> None:
        """Nobody takes that stream's events any more."""
        self._streams.pop(number).close()

    async def flush(self) -> None:
        """Send what the protocol has to say, whole: half a frame cannot be taken back.  Raises Gone."""
        with trio.CancelScope(shield=True):
            async with self._sending:
                try:
                    await self._stream.send_all(self.protocol.data_to_send())
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    raise Gone from error

    async def wait_progress(self) -> None:
        """Return when something more was read, which may have opened a window."""
        await self._progress.wait()
        if self.ended:
            raise Gone(self.end)

    async def slam(self) -> None:
        """Reset the whole connection."""
        await Http1(self._stream).leave(rudely=True)

    def _tell_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()


class Http2:
    """See `Exchange`: a stream of `connection`."""

    def __init__(self, connection: Http2Connection) -> None:
        self._connection = connection
        self._protocol = connection.protocol
        self._number = 0  # none before the request
        self._events: trio.MemoryReceiveChannel[h2.events.Event]
        self._ended = False

    async def ask(self, method: str, path: str, content: bytes = b"", *, part: float = 1.0) -> None:
        """Send a request, or the first part of one."""
        self._number = self._protocol.get_next_available_stream_id()
        self._events = self._connection.register(self._number)
        headers = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        self._protocol.send_headers(self._number, headers)
        await self._connection.flush()
        rest = content[: math.ceil(part * len(content))]
        while rest:
            room = min(self._protocol.local_flow_control_window(self._number), self._protocol.max_outbound_frame_size)
            if not room:
                await self._connection.wait_progress()
                continue
            self._protocol.send_data(self._number, rest[:room])
            await self._connection.flush()
            rest = rest[room:]
        if part == 1.0:
            self._protocol.end_stream(self._number)
            await self._connection.flush()

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Return the status and the headers of the answer."""
        while True:
            event = await self._next_event()
            if isinstance(event, h2.events.ResponseReceived):
                headers = {str(name): str(value) for name, value in event.headers or ()}
                return int(headers.pop(":status")), headers

    async def receive(self) -> bytes:
        """Return more of the answer; nothing at its end."""
        while not self._ended:
            event = await self._next_event()
            if isinstance(event, h2.events.DataReceived):
                await self._connection.flush()
                if event.data:
                    return event.data
        return b""

    async def leave(self, *, rudely: bool) -> None:
        """Give up the stream, with a reset if rudely."""
        if not self._number or self._connection.ended:
            return
        self._connection.forget(self._number)
        with suppress(trio.EndOfChannel):
            while True:  # what nobody will read has to be acknowledged, or the connection's window ends
                self._acknowledge(self._events.receive_nowait())  # no event may come in between and be missed
        if not self._ended:
            self._protocol.reset_stream(self._number)
        await self._connection.flush()

    def _acknowledge(self, event: h2.events.Event) -> None:
        self._ended |= isinstance(event, h2.events.StreamEnded | h2.events.StreamReset)  # a window may open after that
        if isinstance(event, h2.events.DataReceived):
            self._protocol.acknowledge_received_data(event.flow_controlled_length, self._number)

    async def _next_event(self) -> h2.events.Event:
        try:
            event = await self._events.receive()
        except trio.EndOfChannel as error:
            raise Gone(self._connection.end) from error
        self._acknowledge(event)
        if isinstance(event, h2.events.StreamReset):
            raise Gone(f"{event}")
        return event


async def _connect(address: Address, receive_buffer: int = 0) -> trio.SocketStream:
    connection = trio.socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await connection.connect(address)
    return trio.SocketStream(connection)
