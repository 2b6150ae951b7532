"""Clients that know their own sockets.

`Http1` and `Http2Stream` are one request each, with the same surface: they read as slowly, and leave as rudely, as a
test wants.  Everything here is synchronous, and every wait is bounded by `PATIENCE`, which only a failing test uses up.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol, Self

import h2.config
import h2.connection
import h2.events
import h11

from tests.live.server import COMPLETIONS, PATIENCE, Gone, Json, Server, trusting


def prompt(length: int, seed: int = 0) -> list[int]:
    """A prompt of plain token ids, which another seed does not share."""
    draw = random.Random(seed)
    return [draw.randrange(300, 3000) for _ in range(length)]


def completion(ids: object, max_tokens: int, **fields: Any) -> Json:  # noqa: ANN401
    """A greedy streaming completion that says its token ids and does not end by itself."""
    return {
        "prompt": ids,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    } | fields


class Exchange(Protocol):
    """One request and its response: what `Http1` and `Http2Stream` have in common."""

    def head(self) -> tuple[int, dict[str, str]]:
        """Return the status and the headers."""

    def receive(self) -> bytes:
        """Return more of the body; nothing at its end."""


class Reader:
    """Reads what comes over an exchange: events of a stream, or a whole answer."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._buffer = b""
        self.tokens: list[int] = []  # of the first choice, so far
        self.finish_reason: str | None = None
        self.cancelled: str | None = None
        self.errors: list[Json] = []
        self.last: Json = {}
        self.done = False  # whether [DONE] has come

    @property
    def id(self) -> str:
        """The request's id, from the response's head."""
        status, headers = self._exchange.head()
        assert status == 200
        return headers["x-request-id"]

    def events(self) -> Iterator[Json]:
        """The events that are still to come."""
        while True:
            while b"\n\n" in self._buffer:
                event, _, self._buffer = self._buffer.partition(b"\n\n")
                if event == b"data: [DONE]":
                    self.done = True
                elif not event.startswith(b":"):
                    yield self._take(json.loads(event.removeprefix(b"data: ")))
            data = self._exchange.receive()
            if not data:
                assert not self._buffer
                return
            self._buffer += data

    def read_tokens(self, count: int) -> list[int]:
        """Read on until `count` tokens have come in all; those that have."""
        if len(self.tokens) < count:
            for _ in self.events():
                if len(self.tokens) >= count:
                    break
        assert len(self.tokens) >= count, (self.tokens, self.finish_reason, self.errors)
        return self.tokens

    def read_all(self) -> list[int]:
        """Read to the end of the response; all its tokens."""
        for _ in self.events():
            pass
        return self.tokens

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of a response that is sent whole."""
        status, headers = self._exchange.head()
        return status, headers, json.loads(b"".join(iter(self._exchange.receive, b"")))

    def _take(self, event: Json) -> Json:
        self.last = event
        if "error" in event:
            self.errors.append(event["error"])
        for choice in event.get("choices", ()):
            if choice["index"] == 0:
                self.tokens += choice.get("token_ids", ())
                self.finish_reason = choice["finish_reason"] or self.finish_reason
                self.cancelled = choice.get("cede", {}).get("cancelled")
        return event


class Http1(Reader):
    """One HTTP/1.1 request on a socket of its own."""

    def __init__(self, server: Server, body: Json, path: str = COMPLETIONS, *, receive_buffer: int = 0) -> None:
        super().__init__(self)
        self.socket = _connect(server, receive_buffer)
        self._connection = h11.Connection(h11.CLIENT)
        self._head: tuple[int, dict[str, str]] | None = None
        content = json.dumps(body).encode()
        headers = [("host", "localhost"), ("content-length", str(len(content)))]
        self._send(h11.Request(method="POST", target=path, headers=headers))
        self._send(h11.Data(data=content))
        self._send(h11.EndOfMessage())

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, once they are there."""
        if self._head is None:
            event = self.next_event()
            assert isinstance(event, h11.Response), event
            self._head = event.status_code, {name.decode(): value.decode() for name, value in event.headers}
        return self._head

    def receive(self) -> bytes:
        """The next piece of the body, empty at its end.  Raises Gone."""
        self.head()
        if self._connection.their_state is not h11.SEND_BODY:
            return b""
        event = self.next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    def close(self) -> None:
        """The ordinary hang-up; the kernel makes it a reset where something is left unread."""
        self.socket.close()

    def reset(self) -> None:
        """Hang up with a TCP reset."""
        if self.socket.fileno() >= 0:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self.socket.shutdown(socket.SHUT_WR)

    def _send(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        assert data is not None
        self.socket.sendall(data)

    def next_event(self) -> h11.Event:
        """Return the next event of the response.  Raises Gone if the server has ended the connection."""
        while True:
            try:
                event = self._connection.next_event()
                if event is h11.NEED_DATA:
                    self._connection.receive_data(self.socket.recv(2**16))
                    continue
            except (ConnectionError, h11.RemoteProtocolError) as error:
                raise Gone from error
            assert isinstance(event, h11.Event), event
            return event


class Http2:
    """An HTTP/2 connection, by prior knowledge or over TLS, with any number of streams."""

    def __init__(self, server: Server) -> None:
        self.socket = _connect(server, protocol="h2")
        self.protocol = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.protocol.initiate_connection()
        self.streams: dict[int, Http2Stream] = {}
        self.flush()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close the connection."""
        self.socket.close()

    def open(self, body: Json, path: str = COMPLETIONS) -> Http2Stream:
        """A POST as a stream of its own.  A body beyond the flow-control window has to wait for its updates."""
        number = self.protocol.get_next_available_stream_id()
        stream = self.streams[number] = Http2Stream(self, number)
        headers = [(":method", "POST"), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        self.protocol.send_headers(number, headers)
        content = json.dumps(body).encode()
        while content:
            room = min(self.protocol.local_flow_control_window(number), self.protocol.max_outbound_frame_size)
            self.protocol.send_data(number, content[:room])
            self.flush()
            content = content[room:]
            if content and not self.protocol.local_flow_control_window(number):
                self.pump()
        self.protocol.end_stream(number)
        self.flush()
        return stream

    def flush(self) -> None:
        """Send what the protocol has to say."""
        self.socket.sendall(self.protocol.data_to_send())

    def pump(self) -> None:
        """Read once from the socket, and give each stream what is its own.  Raises Gone."""
        try:
            data = self.socket.recv(2**16)
        except ConnectionError as error:
            raise Gone from error
        if not data:
            raise Gone
        for event in self.protocol.receive_data(data):
            number = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.DataReceived):
                self.protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if number in self.streams:
                self.streams[number].take(event)
        self.flush()


class Http2Stream(Reader):
    """One request on an HTTP/2 connection."""

    def __init__(self, connection: Http2, number: int) -> None:
        super().__init__(self)
        self._connection = connection
        self._number = number
        self._head: tuple[int, dict[str, str]] | None = None
        self._pieces: deque[bytes] = deque()
        self._ended = self._reset = False

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, once they are there."""
        while self._head is None:
            self._pump()
        return self._head

    def receive(self) -> bytes:
        """The next piece of the body, empty at its end.  Raises Gone."""
        while not (self._pieces or self._ended):
            self._pump()
        return self._pieces.popleft() if self._pieces else b""

    def reset(self) -> None:
        """Hang up this stream alone, with RST_STREAM."""
        if not self._ended:
            self._connection.protocol.reset_stream(self._number)
            self._connection.flush()

    def take(self, event: h2.events.Event) -> None:
        """One event of this stream's."""
        match event:
            case h2.events.ResponseReceived(headers=headers) if headers:
                named = {str(name): str(value) for name, value in headers}
                self._head = int(named.pop(":status")), named
            case h2.events.DataReceived(data=data) if data:
                self._pieces.append(data)
            case h2.events.StreamEnded():
                self._ended = True
            case h2.events.StreamReset():
                self._reset = True

    def _pump(self) -> None:
        if self._reset:
            raise Gone
        self._connection.pump()


def _connect(server: Server, receive_buffer: int = 0, protocol: str = "http/1.1") -> socket.socket:
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect(server.address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if server.url.startswith("https:"):
        connection = trusting(protocol).wrap_socket(connection)
        assert connection.selected_alpn_protocol() == protocol
    return connection
