"""The connection guard, on real loopback sockets; the clients are raw, and use h11 and h2 only to parse."""

import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import h2.events
import h11
import pytest
import trio
from hypercorn import Config
from hypercorn.app_wrappers import ASGIWrapper
from quart import request
from quart_trio import QuartTrio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.live.h2_client import PATIENCE, H2Client
from web.http.transport.connection import Connection
from web.http.transport.serve import serve_connections
from web.http.transport.task_group import RequestScope
from web.limits import MAX_UNHANDLED, Limits

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework

CHUNK = bytes(2**16)
BIG = CHUNK * 256  # more than the kernel will take at once
NOVEL = (b"x-novel", b"a header that HPACK has to learn")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Hangup = Callable[[trio.SocketStream], Awaitable[None]]


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
        self._arrive, self._arrivals = trio.open_memory_channel[Visit](inf)

    async def visit(self) -> Visit:
        with trio.fail_after(PATIENCE):
            return await self._arrivals.receive()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                assert await receive() == {"type": f"lifespan.{stage}"}
                self.life.append(stage)
                await send({"type": f"lifespan.{stage}.complete"})
            return
        visit = Visit(scope["path"], scope["state"]["request_scope"])
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
                    await _respond(send, 200, visit.path.encode())
                case ["refuse"]:
                    await _respond(send, 404, b"no")
                case ["measure"]:
                    await _respond(send, 200, str(await size.receive()).encode())
                case ["flood"]:
                    await _start(send, 200)
                    while True:
                        await _body(send, BIG)
                case ["big"]:
                    await _respond(send, 200, BIG)
                case ["raise"]:
                    raise RuntimeError("the handler's own fault")
                case ["impatient"]:
                    with trio.CancelScope() as scope:
                        await trio.lowlevel.checkpoint()
                        scope.cancel()
                        await _start(send, 200)
                    return
            visit.answered = True
            await _body(send, b"", more=False)
        except trio.Cancelled:
            visit.cancelled, visit.stalled = not visit.answered, visit.connection.stalled
            raise


async def _start(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [NOVEL]})


async def _body(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _respond(send: Send, status: int, body: bytes) -> None:
    await _start(send, status)
    await _body(send, body)


# The server and its clients


@dataclass(eq=False)
class Server:
    app: App
    port: int
    stop: trio.Event
    ended: trio.Event

    async def connect(self, receive_buffer: int | None = None) -> trio.SocketStream:
        sock = trio.socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        with trio.fail_after(PATIENCE):
            await sock.connect(("127.0.0.1", self.port))
        return trio.SocketStream(sock)

    async def get(self, path: str, after: bytes = b"", receive_buffer: int | None = None) -> trio.SocketStream:
        stream = await self.connect(receive_buffer)
        await stream.send_all(_get(path) + after)
        return stream


def _get(path: str) -> bytes:
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


async def read_on(stream: trio.SocketStream) -> None:
    """Read until the end of the stream, or the error that it ends with."""
    while await stream.receive_some():
        pass


async def send_on(stream: trio.SocketStream) -> None:
    """Send until there is an error."""
    while True:
        await stream.send_all(CHUNK)


async def is_well(server: Server) -> None:
    """The server still takes a new connection and answers on it."""
    async with await server.get("/refuse") as stream:
        assert await read_answers(stream, 1) == [(404, b"no")]


# a. What one connection raises ends at most that connection


async def test_late_body_is_swallowed_and_its_window_given_back() -> None:
    """An HTTP/2 request's body that comes after its answer; on Hypercorn, its first frame ends the server."""
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        sent = 0
        while sent < 3 * 65535:  # three times what the connection's window would hold
            late = await client.ask("POST", b"/refuse", end=False)
            assert await client.answer(late) == b"404"
            for _ in range(2):
                size = min(2**14, client.h2.local_flow_control_window(late))
                client.h2.send_data(late, bytes(size))
                sent += size
            client.h2.end_stream(late)
            await client.flush()
        assert await client.answer(await client.ask("GET", b"/refuse")) == b"404"
        await is_well(server)


async def test_what_a_connection_raises_ends_it_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A :path beyond ASCII is one of the things that Hypercorn does not expect."""
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        visit = await server.app.visit()
        async with await server.connect() as stream:
            client = H2Client(stream)
            await client.ask("GET", b"/wait/neighbour")
            neighbour = await server.app.visit()
            culprit = await client.ask("GET", b"/\xff")
            with pytest.raises((EOFError, trio.BrokenResourceError)):
                await client.answer(culprit)
        await happens(neighbour.ended)
        assert neighbour.cancelled
        visit.release.set()
        assert await read_answers(bystander, 1) == [(200, b"/wait/bystander")]
        await is_well(server)
    [line] = [record.getMessage() for record in caplog.records if record.name == "cede.web"]
    assert "UnicodeDecodeError" in line
    assert "127.0.0.1" in line


async def test_application_that_raises() -> None:
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        visit = await server.app.visit()
        async with await server.get("/raise") as stream:
            assert (await read_answers(stream, 1))[0][0] == 500
        visit.release.set()
        assert await read_answers(bystander, 1) == [(200, b"/wait/bystander")]


async def test_cancelled_sender_leaves_the_connection_whole() -> None:
    """Headers that the protocol has made are sent, or HPACK's tables differ for every other stream."""
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        await client.ask("GET", b"/impatient")
        await happens((await server.app.visit()).ended)
        assert await client.answer(await client.ask("GET", b"/refuse")) == b"404"


# b. A reader that has stalled is cut; a slow one is not


async def test_stalled_reader_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(stall_timeout=0.2) as server, await server.get("/flood") as stream:
        visit = await server.app.visit()
        await happens(visit.ended)
        assert visit.cancelled
        assert visit.stalled
        with trio.fail_after(PATIENCE), pytest.raises(trio.BrokenResourceError):
            await read_on(stream)
        await is_well(server)
    assert "its reader took too little for 0.2 s" in caplog.text


async def test_stalled_reader_on_http2_is_cut() -> None:
    async with serving(stall_timeout=0.2) as server, await server.connect() as stream:
        client = H2Client(stream)
        client.h2.increment_flow_control_window(2**31 - 1 - 65535)
        flood = await client.ask("GET", b"/flood")
        client.h2.increment_flow_control_window(2**31 - 1 - 65535, flood)
        await client.flush()
        visit = await server.app.visit()
        await happens(visit.ended)
        assert visit.cancelled
        assert visit.stalled


async def test_no_stalled_reader_outlives_the_linger() -> None:
    async with serving(linger=0.05) as server, await server.get("/flood"):
        visit = await server.app.visit()
        await wait_all_tasks_blocked(cushion=0.05)
        assert not visit.ended.is_set()
        server.stop.set()
        await happens(server.ended)
        assert visit.cancelled
        assert not visit.stalled
        assert server.app.life == ["startup", "shutdown"]


async def test_slow_reader_is_left_alone(mock_clock: MockClock) -> None:
    """One write that takes fifty times the stall timeout, with some progress every 0.9 of it."""
    step = 4 * len(CHUNK)  # more than the socket's buffers hold, so that reading it needs something to be sent
    async with serving(stall_timeout=10) as server:
        async with await server.get("/big", receive_buffer=2**16) as stream:
            visit = await server.app.visit()
            for _ in range(len(BIG) // step):
                mock_clock.jump(9)
                size = 0
                while size < step:
                    data = await stream.receive_some(step - size)
                    assert data
                    size += len(data)
            assert trio.current_time() > 500
            tail = b""
            while not tail.endswith(b"\r\n0\r\n\r\n"):
                tail += await stream.receive_some()
            assert visit.answered


async def test_a_reader_that_takes_less_than_its_share_is_cut(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some progress all the time, but less than 16 KiB in 10 s; before, that held an answer for hours."""

    async def drip(_self: Connection, data: memoryview) -> int:
        await trio.sleep(9)
        return min(1000, len(data))

    monkeypatch.setattr(Connection, "_send_some", drip)
    async with serving(stall_timeout=10) as server, await server.get("/big"):
        visit = await server.app.visit()
        with trio.fail_after(PATIENCE):
            await visit.ended.wait()
        assert visit.stalled


async def open_windows(client: H2Client, stream_id: int, size: int) -> None:
    client.h2.increment_flow_control_window(size, stream_id)
    await client.flush()
    received = 0
    while received < size:
        event = await client.next_event()
        if isinstance(event, h2.events.DataReceived):
            received += len(event.data)


@pytest.mark.parametrize(("size", "is_cut"), [(1000, True), (2**14, False)])
async def test_a_window_that_is_opened_byte_by_byte(mock_clock: MockClock, size: int, is_cut: bool) -> None:
    """Over HTTP/2 a request is cut by the same share, alone; its client is told, and the connection lives."""
    async with serving(stall_timeout=10) as server, await server.connect() as stream:
        client = H2Client(stream, window=0)
        client.h2.increment_flow_control_window(2**31 - 1 - 65535)
        slow = await client.ask("GET", b"/big")
        visit = await server.app.visit()
        await wait_all_tasks_blocked(0.005)
        for _ in range(20):
            mock_clock.jump(6)
            await wait_all_tasks_blocked(0.005)
            if visit.ended.is_set():
                break
            await open_windows(client, slow, size)
        assert visit.ended.is_set() == visit.cancelled == visit.stalled == is_cut
        if is_cut:
            while not isinstance(event := await client.next_event(), h2.events.StreamReset):
                pass
            assert event.stream_id == slow
        neighbour = await client.ask("HEAD", b"/refuse")
        assert await client.answer(neighbour) == b"404"


async def test_streams_that_share_a_window_share_what_is_taken(mock_clock: MockClock) -> None:
    """Four answers behind one connection window, of which a slow reader opens just its share in all."""
    async with serving(stall_timeout=10) as server, await server.connect() as stream:
        client = H2Client(stream, window=2**30)
        for _ in range(4):
            await client.ask("GET", b"/big")
        visits = [await server.app.visit() for _ in range(4)]
        for _ in range(30):
            await wait_all_tasks_blocked(0.005)
            mock_clock.jump(6)
            client.h2.increment_flow_control_window(2**14)
            await client.flush()
            await client.stream.receive_some()
        assert not any(visit.ended.is_set() for visit in visits)


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_tls(tls: ssl.SSLContext) -> None:
    """Over TLS too: an answer, a close behind pipelined bytes, a stalled reader."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(stall_timeout=0.5, tls=tls) as server:
        streams = [trio.SSLStream(await server.connect(), trusting, https_compatible=True) for _ in range(3)]
        for stream, path in zip(streams, ["/refuse", "/wait", "/flood"], strict=True):
            await stream.send_all(_get(path) + b"\r\n")
        refuse, wait, flood = [await server.app.visit() for _ in range(3)]
        assert await read_answers(streams[0], 1) == [(404, b"no")]
        await streams[1].aclose()
        await happens(wait.ended)
        assert (wait.cancelled, wait.stalled) == (True, False)
        await happens(flood.ended)
        assert (flood.cancelled, flood.stalled) == (True, True)
        assert not refuse.cancelled
        for stream in streams:
            await trio.aclose_forcefully(stream)


# c. A close is seen, whatever was sent before it


async def close(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def half_close(stream: trio.SocketStream) -> None:
    await stream.send_eof()


@pytest.mark.parametrize("hang_up", [close, reset, half_close])
@pytest.mark.parametrize(
    "pipelined",
    [b"", b"\r\n", _get("/wait/next"), _get("/wait/next")[:9], _get("/wait/next") * 99],
    ids=["nothing", "newline", "request", "part", "many"],
)
async def test_hanging_up_cancels_that_request(hang_up: Hangup, pipelined: bytes) -> None:
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        other = await server.app.visit()
        stream = await server.get("/wait", after=pipelined)
        visit = await server.app.visit()
        await stream.send_all(pipelined)  # and some later, when the protocol is already parked
        await wait_all_tasks_blocked()
        assert not visit.ended.is_set()
        await hang_up(stream)
        await happens(visit.ended)
        assert visit.cancelled
        assert not visit.stalled
        other.release.set()
        assert await read_answers(bystander, 1) == [(200, b"/wait/bystander")]
        await stream.aclose()


@pytest.mark.parametrize("hang_up", [close, reset, half_close])
async def test_hanging_up_within_an_answer(hang_up: Hangup) -> None:
    """While the server waits to send what the client does not read."""
    async with serving() as server:
        stream = await server.get("/flood")
        visit = await server.app.visit()
        await wait_all_tasks_blocked()
        await hang_up(stream)
        await happens(visit.ended)
        assert visit.cancelled
        assert not visit.stalled
        await stream.aclose()


async def test_http2_reset_cancels_that_stream() -> None:
    async with serving() as server, await server.connect() as stream:
        client = H2Client(stream)
        doomed, spared = [await client.ask("GET", path) for path in (b"/wait/doomed", b"/wait/spared")]
        visits = {visit.path: visit for visit in [await server.app.visit(), await server.app.visit()]}
        client.h2.reset_stream(doomed)
        await client.flush()
        await happens(visits["/wait/doomed"].ended)
        assert visits["/wait/doomed"].cancelled
        visits["/wait/spared"].release.set()
        assert await client.answer(spared) == b"200"
        assert not visits["/wait/spared"].cancelled


async def test_http2_close_cancels_its_streams() -> None:
    async with serving() as server:
        client = H2Client(await server.connect())
        for _ in range(3):
            await client.ask("GET", b"/wait")
        visits = [await server.app.visit() for _ in range(3)]
        client.h2.reset_stream(1)  # with the close right behind it
        await client.flush()
        await client.stream.aclose()
        for visit in visits:
            await happens(visit.ended)
            assert visit.cancelled


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving() as server, await server.connect() as stream:
        paths = [f"/wait/{number}" for number in range(20)]
        await stream.send_all(b"".join(map(_get, paths)))
        for path in paths:
            visit = await server.app.visit()
            assert visit.path == path
            visit.release.set()
        assert await read_answers(stream, 20) == [(200, path.encode()) for path in paths]


async def test_endless_pipeline_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(stall_timeout=0.2) as server, await server.get("/wait") as stream:
        visit = await server.app.visit()
        with trio.fail_after(PATIENCE), pytest.raises(trio.BrokenResourceError):
            await send_on(stream)
        await happens(visit.ended)
        assert visit.cancelled
    assert "bytes went unhandled" in caplog.text


async def test_body_in_crumbs_is_not_mistaken_for_a_pipeline() -> None:
    """The protocol needs a while for many small chunks; the reader waits for it."""
    crumbs = 2 * MAX_UNHANDLED // 69
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(b"POST /measure HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, (b"40\r\n" + bytes(64) + b"\r\n") * crumbs + b"0\r\n\r\n")
            assert await read_answers(stream, 1) == [(200, str(64 * crumbs).encode())]


@pytest.mark.parametrize(
    "upgrade", ["h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "websocket\r\nSec-WebSocket-Version: 13"]
)
async def test_an_upgrade_is_ignored(upgrade: str) -> None:
    """As a server may: the request is answered as it is, and the connection goes on."""
    head = (
        f"GET /refuse HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\n\r\n"
    )
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(head.encode() + _get("/refuse"))
        assert await read_answers(stream, 2) == [(404, b"no"), (404, b"no")]


# No more connections than there is room for


async def test_a_connection_too_many_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(limits=Limits(connections=8)) as server:
        held = [await server.connect() for _ in range(8)]
        await held[0].send_all(_get("/wait"))
        visit = await server.app.visit()
        for _ in range(3):
            async with await server.get("/refuse") as extra:
                [(status, body)] = await read_answers(extra, 1)
                assert status == 503
                assert b"too many open connections" in body
        for stream in held[1:3]:
            await stream.aclose()
        await wait_all_tasks_blocked(0.05)
        await is_well(server)
        visit.release.set()
        assert await read_answers(held[0], 1) == [(200, b"/wait")]
        for stream in held:
            await stream.aclose()
    assert caplog.text.count("refusing connections") == 1, "once for all that are refused in a row"


# Beginning and end


async def test_stopping_lets_the_busy_finish_and_closes_the_idle() -> None:
    async with serving() as server:
        idle = await server.get("/refuse")
        assert await read_answers(idle, 1) == [(404, b"no")]
        await server.app.visit()
        silent = await server.connect()
        busy = await server.get("/wait")
        visit = await server.app.visit()
        server.stop.set()
        with trio.fail_after(PATIENCE):
            assert await idle.receive_some() == b""
            assert await silent.receive_some() == b""
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", server.port)
        assert server.app.life == ["startup"]
        assert not visit.ended.is_set()
        visit.release.set()
        assert await read_answers(busy, 1) == [(200, b"/wait")]
        await happens(server.ended)
        assert server.app.life == ["startup", "shutdown"]
        for stream in (idle, silent, busy):
            await stream.aclose()


async def test_server_closes_where_the_client_asks_it_to() -> None:
    """After a request that http.disconnect has just cancelled, as it does every one; HTTP/1.0 depends on it."""
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(b"GET /refuse HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        with trio.fail_after(PATIENCE):
            await read_on(stream)


async def test_quart() -> None:
    """With the real framework: its lifespan runs, it finds the connection, its handler is cancelled."""
    app = QuartTrio(__name__)
    life: list[str] = []
    started, cancelled = trio.Event(), trio.Event()

    @app.before_serving
    async def startup() -> None:
        life.append("startup")

    @app.after_serving
    async def shutdown() -> None:
        life.append("shutdown")

    @app.get("/wait")
    async def wait() -> str:
        assert isinstance(request.scope["state"]["request_scope"], RequestScope)
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    async with serving(app) as server:
        for connect in (partial(server.get, "/wait", after=b"\r\n"), server.connect):
            started, cancelled = trio.Event(), trio.Event()
            stream = await connect()
            if connect == server.connect:
                await H2Client(stream).ask("GET", b"/wait")
            await happens(started)
            await stream.aclose()
            await happens(cancelled)
        server.stop.set()
        await happens(server.ended)
    assert life == ["startup", "shutdown"]
