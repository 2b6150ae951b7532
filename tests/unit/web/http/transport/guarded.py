"""An application behind `serve_connections`, and raw clients, which use h11 and h2 only to parse."""

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, cast

import h11
import trio
from hypercorn import Config
from hypercorn.app_wrappers import ASGIWrapper
from quart_trio import QuartTrio

from tests.live.server import PATIENCE
from web.http.transport.serve import serve_connections
from web.http.transport.task_group import RequestScope
from web.process.limits import Limits

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework


CHUNK = bytes(2**16)
BIG = CHUNK * 256  # more than the kernel will take at once
NOVEL = (b"x-novel", b"a header that HPACK has to learn")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


# An application whose handlers tell what happens to them


@dataclass(eq=False)
class Visit:
    """One request's time in the application."""

    path: str
    connection: RequestScope
    release: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)
    answered: bool = False
    cancelled: bool = False
    stalled: bool = False


class App:
    """An ASGI application in the manner of quart-trio: a request is cancelled at its http.disconnect.

    (Which comes to every request: to an answered one, too.)
    """

    def __init__(self) -> None:
        self.life: list[str] = []
        self.visits: list[Visit] = []
        self._arrive, self._arrivals = trio.open_memory_channel[Visit](inf)

    async def visit(self) -> Visit:
        """Wait for the next request."""
        with trio.fail_after(PATIENCE):
            return await self._arrivals.receive()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one scope of ASGI."""
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                assert await receive() == {"type": f"lifespan.{stage}"}
                self.life.append(stage)
                await send({"type": f"lifespan.{stage}.complete"})
            return
        visit = Visit(scope["path"], scope["state"]["request_scope"])
        self.visits.append(visit)
        self._arrive.send_nowait(visit)
        try:
            async with trio.open_nursery() as nursery:
                body: trio.MemorySendChannel[int]
                body, size = trio.open_memory_channel(1)
                nursery.start_soon(self._listen, receive, body, nursery.cancel_scope)
                await self._answer(visit, size, send)
                nursery.cancel_scope.cancel()
        finally:
            visit.ended.set()

    async def _listen(
        self,
        receive: Receive,
        body: trio.MemorySendChannel[int],
        scope: trio.CancelScope,
    ) -> None:
        size = 0
        while (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            if not message["more_body"]:
                body.send_nowait(size)
        scope.cancel()

    async def _answer(self, visit: Visit, size: trio.MemoryReceiveChannel[int], send: Send) -> None:
        try:
            match visit.path.split("/")[1:]:
                case ["wait", *_]:
                    await visit.release.wait()
                    await respond(send, 200, visit.path.encode())
                case ["refuse"]:
                    await respond(send, 404, b"no")
                case ["measure"]:
                    await respond(send, 200, str(await size.receive()).encode())
                case ["flood"]:
                    await response_start(send, 200)
                    while True:
                        await response_body(send, BIG)
                case ["big"]:
                    await respond(send, 200, BIG)
                case ["raise"]:
                    raise RuntimeError("the handler's own fault")
                case ["impatient"]:
                    with trio.CancelScope() as scope:
                        await trio.lowlevel.checkpoint()
                        scope.cancel()
                        await response_start(send, 200)
                    return
            visit.answered = True
            await response_body(send, b"", more=False)
        except trio.Cancelled:
            visit.cancelled, visit.stalled = not visit.answered, visit.connection.stalled
            raise


async def response_start(send: Send, status: int) -> None:
    """Send the head of a response."""
    await send({"type": "http.response.start", "status": status, "headers": [NOVEL]})


async def response_body(send: Send, body: bytes, more: bool = True) -> None:
    """Send a piece of a body."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def respond(send: Send, status: int, body: bytes) -> None:
    """Send a whole response."""
    await response_start(send, status)
    await response_body(send, body)


# The server and its clients


@dataclass(eq=False)
class Server:
    """The server under test: its application, its port, and the event that ends it."""

    app: App
    port: int
    stop: trio.Event
    ended: trio.Event

    async def connect(self, receive_buffer: int | None = None) -> trio.SocketStream:
        """Open a connection; with a small `receive_buffer` it is full soon."""
        sock = trio.socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        with trio.fail_after(PATIENCE):
            await sock.connect(("127.0.0.1", self.port))
        return trio.SocketStream(sock)

    async def get(self, path: str, after: bytes = b"", receive_buffer: int | None = None) -> trio.SocketStream:
        """Open a connection and ask for `path`; `after` is sent behind the request."""
        stream = await self.connect(receive_buffer)
        await stream.send_all(get_request(path) + after)
        return stream


def get_request(path: str) -> bytes:
    """Return the bytes of a GET."""
    return f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


@asynccontextmanager
async def serving(
    quart: QuartTrio | None = None,
    *,
    stall_timeout: float = 600,
    linger: float = 600,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Server]:
    """A server; on leaving, it is stopped without further ado."""
    config = Config()
    config.errorlog = logging.getLogger("test_guard")
    app = App()
    wrapped = ASGIWrapper(cast("ASGIFramework", quart or app))
    listener: Any = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    if tls is not None:
        listener = trio.SSLListener(listener, tls, https_compatible=True)
    stop, ended = trio.Event(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[None]) -> None:
        times = {"stall_timeout": stall_timeout, "linger": linger}
        bounds = limits or Limits()
        await serve_connections(wrapped, config, [listener], limits=bounds, stop=stop, task_status=task_status, **times)
        ended.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield Server(app, port, stop, ended)
        nursery.cancel_scope.cancel()


async def happens(event: trio.Event) -> None:
    """Wait for an event, not for ever."""
    with trio.fail_after(PATIENCE):
        await event.wait()


async def read_answers(stream: trio.abc.Stream, count: int) -> list[tuple[int, bytes]]:
    """The next `count` responses on an HTTP/1.1 connection: status and body."""
    connection = h11.Connection(h11.CLIENT)
    answers: list[tuple[int, bytes]] = []
    with trio.fail_after(PATIENCE):
        for number in range(count):
            if number:
                connection.start_next_cycle()
            connection.send(h11.Request(method="GET", target="/", headers=[("host", "test")]))
            connection.send(h11.EndOfMessage())
            status, body = 0, b""
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    connection.receive_data(bytes(await stream.receive_some()))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
            answers.append((status, body))
    return answers


async def read_on(stream: trio.SocketStream) -> int:
    """Read until the end of the stream, or the error that it ends with; return how many bytes came."""
    count = 0
    while data := await stream.receive_some():
        count += len(data)
    return count


async def is_well(server: Server) -> None:
    """The server still takes a new connection and answers on it."""
    async with await server.get("/refuse") as stream:
        assert await read_answers(stream, 1) == [(404, b"no")]
