"""Real servers in processes of their own, and clients that know their own sockets.

`Server` runs the command line's `serve` and looks in through the server's endpoints.  `Http1` and `Http2Stream` are one
request each, with the same surface: they read as slowly, and leave as rudely, as a test wants.  Everything here is
synchronous, and every wait is bounded by `PATIENCE`, which only a failing test uses up.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import selectors
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h11

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from types import TracebackType

T = TypeVar("T")
Json = dict[str, Any]

PATIENCE = 90.0  # seconds; a loaded machine takes its time over importing torch
ROOT = Path(__file__).parents[2]
ANNOUNCEMENT = "cede serves "
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


class Gone(Exception):
    """The server has ended the connection, or the stream, before the response was whole."""


def wait_for(condition: Callable[[], T], what: str) -> T:
    """The first truthy value of `condition`, which is asked again and again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if value := condition():
            return value
        assert time.monotonic() < deadline, f"waited {PATIENCE:g} s in vain for {what}"
        time.sleep(0.002)


def stage(phase: str) -> str:
    """A phase, where it does not matter whether tokens are drafted: drafting and verifying are parts of decoding."""
    return "decode" if phase in ("draft", "verify") else phase


# --- servers --------------------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    """The command line, without leaning on the console script."""
    return [sys.executable, "-m", "web", *arguments]


def environment() -> dict[str, str]:
    """Ours, with this source tree in front and no way to a model hub."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}


class Server:
    """A server process.  Making one starts it; the first use, or `wait_ready`, waits for its announcement."""

    def __init__(self, *flags: str) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # closed by `end`
        self.process = subprocess.Popen(
            command("serve", "--port", "0", *flags),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
        )
        self._url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    @property
    def url(self) -> str:
        """As announced."""
        if not self._url:
            self.wait_ready()
        return self._url

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def wait_ready(self) -> str:
        """The line that says where the server listens."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE), f"no announcement: {self.log()}"
        line = self.process.stdout.readline().rstrip("\n")
        assert line.startswith(ANNOUNCEMENT), f"not an announcement: {line!r}, {self.log()}"
        self._url = line.rpartition(" ")[2]
        return line

    def log(self) -> str:
        """What the server has written to its standard error so far."""
        self._log.seek(0)
        return self._log.read()

    def signal(self, number: signal.Signals) -> None:
        """Send this process a signal."""
        self.process.send_signal(number)

    def wait_exit(self) -> int:
        """The exit status."""
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """End the process, the polite way first.  Raises AssertionError where that was not enough."""
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server outlived SIGTERM by {PATIENCE:g} s: {self.log()[-4000:]}") from None
        finally:
            self.process.stdout.close()
            self._log.close()

    # --- looking in -------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """One whole exchange: the status, and the JSON of the answer."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        if self.url.startswith("https:"):
            connection = http.client.HTTPSConnection(*self.address, timeout=PATIENCE, context=trusting())
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def get(self, path: str) -> Any:  # noqa: ANN401
        """The JSON at `path`."""
        status, answer = self.ask("GET", path)
        assert status == 200, answer
        return answer

    def slots(self) -> list[Json]:
        """As `GET /slots` shows them."""
        slots: list[Json] = self.get("/slots")["slots"]
        return slots

    def requests(self) -> dict[str, Json]:
        """The live requests by id, oldest first."""
        return {request["id"]: request for request in self.get("/v1/requests")["data"]}

    def states(self, request_id: str) -> list[str]:
        """The stages that a live request's generations are in; empty for one that has ended."""
        return [stage(state) for state in self.requests().get(request_id, {"states": []})["states"]]

    def receipts(self, request_id: str) -> list[Json]:
        """The receipts of one request, newest first."""
        return [
            receipt for receipt in self.get("/v1/receipts?limit=1024")["data"] if receipt["request_id"] == request_id
        ]

    def wait_state(self, request_id: str, state: str) -> None:
        """Wait until all generations of a live request are in `state`."""
        wait_for(lambda: set(self.states(request_id)) == {state}, f"{request_id} to be in {state}")

    def wait_committed(self, request_id: str, tokens: int) -> None:
        """Wait until so many tokens of a request's sequence are in its slot, or it has ended."""

        def is_there() -> bool:
            if request_id not in self.requests():
                return True
            return any(slot["request_id"] == request_id and slot["tokens"] >= tokens for slot in self.slots())

        wait_for(is_there, f"{tokens} tokens of {request_id}")

    def wait_ended(self, request_id: str) -> list[Json]:
        """Wait until a request no longer lives; its receipts."""
        wait_for(lambda: request_id not in self.requests(), f"the end of {request_id}")
        return self.receipts(request_id)

    def wait_idle(self) -> None:
        """Wait until nothing lives and every slot is free."""
        wait_for(lambda: not self.requests(), "all requests to end")
        wait_for(lambda: all(slot["state"] == "idle" for slot in self.slots()), "all slots to be free")


def trusting(*protocols: str) -> ssl.SSLContext:
    """A client's side of TLS with whatever certificate, speaking one of `protocols`."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


# --- requests -------------------------------------------------------------------------------------------------------


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

    def head(self) -> tuple[int, dict[str, str]]: ...
    def receive(self) -> bytes: ...


class Reader:
    """Reads what comes over an exchange: events of a stream, or a whole answer."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._buffer = b""
        self.tokens: list[int] = []  # of the first choice, so far
        self.finish_reason: str | None = None
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, once they are there."""
        if self._head is None:
            event = self._next_event()
            assert isinstance(event, h11.Response), event
            self._head = event.status_code, {name.decode(): value.decode() for name, value in event.headers}
        return self._head

    def receive(self) -> bytes:
        """The next piece of the body, empty at its end.  Raises Gone."""
        self.head()
        if self._connection.their_state is not h11.SEND_BODY:
            return b""
        event = self._next_event()
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

    def _next_event(self) -> h11.Event:
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
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
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
