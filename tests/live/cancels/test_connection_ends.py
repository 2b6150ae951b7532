"""Every way in which a connection can end, in each phase of a request: afterwards it is gone, and has its receipt.

A whole server in this process: the simulated engine, the real application and connections, sockets on loopback.  The
clock stands still until a test moves it, so a request stays in its phase for as long as a test wants.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import h2.events
import pytest
import trio
from h2.errors import ErrorCodes
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes.simulation import Simulation, ask, open_simulation, prompt
from tests.live.h2_client import H2Client
from web.limits import Limits
from web.server import serve_engine

if TYPE_CHECKING:
    from pathlib import Path

    from actors.core.receipts import Receipt

STEP = 0.01  # seconds
TOKENS = 60  # of an answer: many more steps than an end may take
STEPS_TO_END = 20
STALL_TIMEOUT = 30.0

PHASES = ("queued", "prefill", "decode", "unread")


@dataclass(eq=False)
class Server:
    """The server under test and its clock."""

    simulation: Simulation
    clock: MockClock
    port: int
    stop: trio.Event
    tls: ssl.SSLContext | None

    async def connect(self) -> trio.SocketStream:
        """A socket that takes little at a time."""
        sock = trio.socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
        await sock.connect(("127.0.0.1", self.port))
        return trio.SocketStream(sock)

    async def pass_time(self, until: Callable[[], object], seconds: float) -> bool:
        """Let virtual time pass, a step at a time; whether `until` came true within so many seconds of it."""
        for _ in range(round(seconds / STEP)):
            await wait_all_tasks_blocked(0.0003)
            if until():
                return True
            self.clock.jump(STEP)
        await wait_all_tasks_blocked(0.001)
        return bool(until())

    def live(self) -> list[str]:
        """The requests that came over HTTP; the simulation's own client is not among them."""
        return [status.id for status in self.simulation.engine.requests() if status.id != "holder"]

    def receipts(self) -> list[Receipt]:
        """As `live`."""
        return [receipt for receipt in self.simulation.engine.receipts(100) if receipt.request_id != "holder"]

    def phase(self) -> set[str]:
        """The phases of all that came over HTTP."""
        return {
            str(state)
            for status in self.simulation.engine.requests()
            for state in status.states
            if status.id != "holder"
        }


class Client:
    """One client, its connection, and the request that it makes."""

    def __init__(self, server: Server, tcp: trio.SocketStream, *, http2: bool, window: int) -> None:
        self.server = server
        self.tcp = tcp
        self.stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = tcp
        self.http2 = http2
        self._window = window
        self.h2: H2Client
        self.stream_id = 0

    async def open(self) -> None:
        """Shake hands."""
        if self.server.tls is not None:
            self.stream = trio.SSLStream(self.tcp, self.server.tls, https_compatible=True)
            await self.stream.do_handshake()
        if self.http2:
            self.h2 = H2Client(self.stream, self._window)

    async def ask(self, length: int, tokens: int) -> None:
        """Ask for a stream of so many tokens."""
        body = json.dumps(
            {"prompt": prompt(length), "max_tokens": tokens, "temperature": 0, "stream": True, "return_token_ids": True}
        ).encode()
        if self.http2:
            self.stream_id = await self.h2.ask("POST", b"/v1/completions", body=body)
            return
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.stream.send_all(head.encode() + body)

    async def finishes(self) -> bool:
        """Read on, while time passes; whether the answer comes to its end."""
        read = bytearray()
        done = trio.Event()

        async def read_on() -> None:
            while b"data: [DONE]" not in read:
                if self.http2:
                    event = await self.h2.next_event()
                    if isinstance(event, h2.events.DataReceived):
                        read.extend(event.data)
                        self.h2.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        await self.h2.flush()
                else:
                    data = await self.stream.receive_some()
                    if not data:
                        return
                    read.extend(data)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_on)
            ended = await self.server.pass_time(done.is_set, 10 * TOKENS * STEP)
            nursery.cancel_scope.cancel()
        return ended


@asynccontextmanager
async def serving(
    clock: MockClock, certificate: tuple[Path, Path] | None = None, limits: Limits | None = None
) -> AsyncIterator[Server]:
    """A server with one slot; leaving checks that nothing is left in the engine."""
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*certificate)
        tls.set_alpn_protocols(["h2", "http/1.1"])
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**12)
    stop = trio.Event()
    async with (
        open_simulation(slots=1, context=2048, layers=1, step_seconds=lambda _rows: STEP) as simulation,
        trio.open_nursery() as nursery,
    ):
        serve = partial(
            serve_engine, simulation.engine, [listener], stop, stall_timeout=STALL_TIMEOUT, tls=tls, limits=limits
        )
        await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        yield Server(simulation, clock, port, stop, None if tls is None else _trusting())
        nursery.cancel_scope.cancel()


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def in_phase(server: Server, phase: str, *, http2: bool) -> Client:
    """A client whose request is in that phase."""
    if server.tls is not None:
        server.tls.set_alpn_protocols(["h2" if http2 else "http/1.1"])
    client = Client(server, await server.connect(), http2=http2, window=0 if phase == "unread" else 65535)
    await client.open()
    if phase == "queued":
        await client.ask(20, TOKENS)
    else:
        await client.ask(1000 if phase == "prefill" else 5, 300 if phase == "unread" else TOKENS)
    state = {"queued": "queued", "prefill": "prefill", "decode": "decode", "unread": "done"}[phase]
    assert await server.pass_time(lambda: server.phase() == {state}, 1200 * STEP)
    return client


# --- the ways to end -----------------------------------------------------------------------------------------------


async def close(client: Client) -> None:
    await client.stream.aclose()


async def reset(client: Client) -> None:
    client.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.tcp.socket.close()


async def half_close(client: Client) -> None:
    await client.tcp.send_eof()


async def ragged_end(client: Client) -> None:
    """TLS without its goodbye."""
    await client.tcp.aclose()


async def reset_stream(client: Client) -> None:
    client.h2.h2.reset_stream(client.stream_id, ErrorCodes.CANCEL)
    await client.h2.flush()


async def overflow_stream_window(client: Client) -> None:
    for _ in range(2):
        await client.stream.send_all(_frame(8, 0, client.stream_id, struct.pack(">I", 2**31 - 1)))


def leave(code: int) -> End:
    async def goaway(client: Client) -> None:
        await client.stream.send_all(_frame(7, 0, 0, struct.pack(">II", 0, code)))

    return goaway


def frames(*wrong: bytes) -> End:
    async def send(client: Client) -> None:
        with suppress(trio.BrokenResourceError):
            await client.stream.send_all(b"".join(wrong))

    return send


async def go_and_close(client: Client) -> None:
    await leave(0)(client)
    await client.stream.aclose()


async def stop_serving(client: Client) -> None:
    """The server's own end; what has not finished when its linger is over is cancelled."""
    client.server.stop.set()
    await wait_all_tasks_blocked(0.001)
    client.server.clock.jump(3.1)


async def read_nothing(client: Client) -> None:
    """For longer than the server waits."""
    for _ in range(4):
        client.server.clock.jump(STALL_TIMEOUT / 3)
        await wait_all_tasks_blocked(0.001)


def _frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream_id) + payload


End = Callable[[Client], Awaitable[None]]

BY_SOCKET: dict[str, End] = {"close": close, "reset": reset, "half-close": half_close, "server stops": stop_serving}
BY_STREAM: dict[str, End] = {"RST_STREAM": reset_stream, "its window overflows": overflow_stream_window}
BY_FRAME: dict[str, End] = {
    "GOAWAY, an error": leave(ErrorCodes.INTERNAL_ERROR),
    "GOAWAY, then close": go_and_close,
    "data for no stream": frames(_frame(0, 0, 0, b"x")),
    "data for an idle stream": frames(_frame(0, 0, 99, b"x")),
    "connection's window overflows": frames(_frame(8, 0, 0, struct.pack(">I", 2**31 - 1))),
    "push from a client": frames(_frame(5, 4, 1, struct.pack(">I", 2) + b"\x82")),
    "headers that are not HPACK": frames(_frame(1, 5, 101, b"\xff\xff\xff\xff\xff\xff\xff")),
    "a stream that goes back": frames(_frame(1, 5, 1, b"\x82\x84\x86")),
    "endless headers": frames(_frame(1, 0, 101, b"\x82"), *[_frame(9, 0, 101, b"") for _ in range(70)]),
    "a frame too long": frames(_frame(0, 0, 1, bytes(2**14 + 1))),
    "a window of 2**31": frames(_frame(4, 0, 0, struct.pack(">HI", 4, 2**31))),
    "a stream that depends on itself": frames(_frame(2, 0, 101, struct.pack(">IB", 101, 1))),
    "padding beyond the frame": frames(_frame(0, 8, 1, b"\xff")),
}


def _rows() -> list[Any]:
    rows = [
        pytest.param(http2, phase, end, id=f"{'2' if http2 else '1.1'}-{phase}-{name}")
        for http2 in (False, True)
        for phase in PHASES
        for name, end in (BY_SOCKET | (BY_STREAM if http2 else {})).items()
    ]
    rows += [pytest.param(http2, "unread", read_nothing, id=f"{http2}-unread-stall") for http2 in (False, True)]
    return rows + [
        pytest.param(True, phase, end, id=f"2-{phase}-{name}")
        for phase in ("queued", "decode")
        for name, end in BY_FRAME.items()
    ]


async def check_end(server: Server, client: Client, phase: str, end: End) -> None:
    """After its end, a request does not live, has its receipt, and holds no slot."""
    await end(client)
    assert await server.pass_time(lambda: not server.live(), STEPS_TO_END * STEP), "it decodes on, for nobody"
    receipts = [(receipt.reason, receipt.phase) for receipt in server.receipts()]
    assert receipts == ([] if phase == "unread" else [("client_disconnect", phase)])
    with suppress(trio.ClosedResourceError, trio.BusyResourceError):
        await trio.aclose_forcefully(client.tcp)


@asynccontextmanager
async def holding(server: Server, phase: str) -> AsyncIterator[None]:
    """Somebody has the only slot, for as long as others are to be queued."""
    if phase != "queued":
        yield
        return
    async with trio.open_nursery() as nursery:
        asked = ask("holder", prompt(3), max_tokens=2000)
        nursery.start_soon(server.simulation.client, asked)
        await wait_all_tasks_blocked()
        yield
        server.simulation.expect(asked).connection.cancel()
        assert await server.pass_time(lambda: not server.simulation.engine.requests(), STEPS_TO_END * STEP)


@pytest.mark.parametrize(("http2", "phase", "end"), _rows())
async def test_after_its_end(mock_clock: MockClock, http2: bool, phase: str, end: End) -> None:
    async with serving(mock_clock) as server, holding(server, phase):
        client = await in_phase(server, phase, http2=http2)
        await check_end(server, client, phase, end)


@pytest.mark.parametrize("end", [close, reset, ragged_end], ids=lambda end: end.__name__)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("http2", [False, True])
async def test_after_its_end_over_tls(
    mock_clock: MockClock, certificate: tuple[Path, Path], http2: bool, phase: str, end: End
) -> None:
    async with serving(mock_clock, certificate) as server, holding(server, phase):
        client = await in_phase(server, phase, http2=http2)
        await check_end(server, client, phase, end)


# --- what ends nothing ---------------------------------------------------------------------------------------------


async def many_requests(client: Client) -> None:
    """Beyond Hypercorn's bound of 1000 on a connection, at which it said GOAWAY and forgot the rest."""
    for _ in range(26):
        asked = [await client.h2.ask("HEAD", b"/health") for _ in range(40)]
        answered: set[int] = set()
        while not answered.issuperset(asked):
            if isinstance(event := await client.h2.next_event(), h2.events.StreamEnded):
                answered.add(event.stream_id)


async def too_many_streams(client: Client) -> None:
    """More than are offered, by a client that does not know the number yet: one is refused, to be sent again."""
    asked = [await client.h2.ask("POST", b"/v1/completions", end=False) for _ in range(Limits().streams)]
    while not isinstance(event := await client.h2.next_event(), h2.events.StreamReset):
        pass
    assert event.error_code == ErrorCodes.REFUSED_STREAM
    asked.remove(event.stream_id)
    for stream_id in asked:
        client.h2.h2.reset_stream(stream_id)
    await client.h2.flush()


async def rapid_resets(client: Client) -> None:
    """A request and its reset, again and again, without a look at what came of it."""
    for _ in range(300):
        stream_id = client.h2.h2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":path", "/v1/completions"), (":scheme", "http"), (":authority", "localhost")]
        client.h2.h2.send_headers(stream_id, headers)
        client.h2.h2.reset_stream(stream_id)
    await client.h2.flush()


async def window_goes_below_nothing(client: Client) -> None:
    """The initial window is set to 0 in the middle of an answer, and later given back."""
    await client.stream.send_all(_frame(4, 0, 0, struct.pack(">HI", 4, 0)))
    await wait_all_tasks_blocked(0.001)
    client.server.clock.jump(STEP)
    await client.stream.send_all(_frame(4, 0, 0, struct.pack(">HI", 4, 65535)))


async def tunnel(client: Client) -> None:
    """CONNECT, for a web socket or otherwise, is refused, and nothing else."""
    stream_id = client.h2.h2.get_next_available_stream_id()
    client.h2.h2.send_headers(stream_id, [(":method", "CONNECT"), (":authority", "localhost")], end_stream=True)
    await client.h2.flush()
    while not isinstance(event := await client.h2.next_event(), h2.events.StreamReset):
        pass
    assert event.stream_id == stream_id


PRIORITIES = [_frame(2, 0, 2 * n + 1001, struct.pack(">IB", 2 * n + 1003, 9)) for n in range(1500)]

HARMLESS: dict[str, End] = {
    "GOAWAY, no error": leave(ErrorCodes.NO_ERROR),
    "GOAWAY, then windows": frames(
        _frame(7, 0, 0, struct.pack(">II", 0, 0)), _frame(8, 0, 0, struct.pack(">I", 1000)), _frame(6, 0, 0, bytes(8))
    ),
    "the 1001st request": many_requests,
    "a stream too many": too_many_streams,
    "rapid resets": rapid_resets,
    "a negative window": window_goes_below_nothing,
    "CONNECT": tunnel,
    "priorities of 1500 streams, in a circle": frames(*PRIORITIES),
}


@pytest.mark.parametrize("event", HARMLESS.values(), ids=HARMLESS.keys())
async def test_a_request_finishes_after(mock_clock: MockClock, event: End) -> None:
    async with serving(mock_clock) as server:
        client = await in_phase(server, "decode", http2=True)
        await event(client)
        assert await client.finishes()
        assert await server.pass_time(lambda: not server.live(), STEP)
        assert server.receipts() == []
        await client.stream.aclose()
