"""A server on a clock of its own, clients in each phase of a request, and ways to end a connection.

A whole server in this process: the simulated engine, the real application and connections, sockets on loopback.  The
clock stands still until a test moves it, so a request stays in its phase for as long as a test wants.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import h2.events
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.core.receipts import Receipt
from tests.fakes.simulation import Simulation, open_simulation, prompt
from tests.live.h2_client import H2Client
from tests.live.server import PATIENCE
from web.process.limits import Limits
from web.serving.server import Entrance, serve_engine

STEP = 0.01  # seconds
TOKENS = 60  # of an answer: many more steps than an end may take
STALL_TIMEOUT = 30.0
CUSHION, LAST_STEPS = 0.0003, 15  # real seconds without any event before a step; the last step's is 5 s


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
        """Let virtual time pass, a step at a time; whether `until` came true within so many seconds of it.

        Bytes on their way through a busy machine take real time, so the last steps wait longer and longer for them.
        """
        for left in range(round(seconds / STEP), 0, -1):
            await wait_all_tasks_blocked(CUSHION * 2 ** max(0, LAST_STEPS - left))
            if until():
                return True
            self.clock.jump(STEP)
        await wait_all_tasks_blocked(0.001)
        return bool(until())

    async def has_parsed(self) -> None:
        """Return when a request has come; its body is parsed in a thread, which takes no virtual time."""
        deadline = time.monotonic() + PATIENCE
        while not self.live():
            assert time.monotonic() < deadline, "no request has come"
            await wait_all_tasks_blocked(CUSHION)

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
        entrance = Entrance(tls, limits=replace(limits or Limits(), stall_timeout=STALL_TIMEOUT))
        await nursery.start(serve_engine, simulation.engine, [listener], stop, entrance)
        port = listener.socket.getsockname()[1]
        yield Server(simulation, clock, port, stop, None if tls is None else trusting())
        nursery.cancel_scope.cancel()


def trusting() -> ssl.SSLContext:
    """Return a client's side of TLS that takes any certificate."""
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
    await server.has_parsed()
    state = {"queued": "queued", "prefill": "prefill", "decode": "decode", "unread": "done"}[phase]
    assert await server.pass_time(lambda: server.phase() == {state}, 1200 * STEP)
    return client


def leave(code: int) -> End:
    """Return an end by GOAWAY with this error code."""

    async def goaway(client: Client) -> None:
        await client.stream.send_all(frame_of(7, 0, 0, struct.pack(">II", 0, code)))

    return goaway


def frames(*wrong: bytes) -> End:
    """Return an end by frames that the protocol does not allow."""

    async def send(client: Client) -> None:
        with suppress(trio.BrokenResourceError):
            await client.stream.send_all(b"".join(wrong))

    return send


def frame_of(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """Return the bytes of one HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream_id) + payload


End = Callable[[Client], Awaitable[None]]
