"""A connection on which no request runs is closed in time, in whatever state it is."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hostile.frames import PREFACE, PSEUDO, frame
from tests.live.server import trusting
from tests.unit.web.http.transport.guarded import Server, get_request, is_well, serving
from web.process.limits import Limits

KEEP_ALIVE, HANDSHAKE = 5, 60  # seconds, as Hypercorn's config has them
HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 1, 3, 4, 6, 8
OPENING = PREFACE + frame(SETTINGS, 0, 0, b"")


def ask(path: bytes, stream_id: int = 1, flags: int = 5, method: bytes = b"\x82") -> bytes:
    """HEADERS of a request, which its flags end."""
    fields = dict(PSEUDO)
    block = method + b"\x86\x04" + bytes([len(path)]) + path + b"\x01\x09" + fields[b":authority"]
    return frame(HEADERS, flags, stream_id, block)


@dataclass(frozen=True)
class Case:
    """Case of what a client sends at first, and later, while it is waited for its end; `tls` is what it negotiates."""

    first: bytes
    later: bytes = b""
    tls: str | None = None


PINGS = frame(PING, 0, 0, bytes(8))
RESET = frame(RST_STREAM, 0, 1, b"\0\0\0\x08")
UPGRADE = b"GET /refuse HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"
IDLE = {
    "nothing": Case(b""),
    "a byte now and then": Case(b"G", b"E"),
    "half a head": Case(b"GET / HTTP/1.1\r\nHo", b"s"),
    "an answered request": Case(get_request("/refuse")),
    "two answered requests": Case(get_request("/refuse") * 2),
    "an answered request and half a head": Case(get_request("/refuse") + b"GET / HTTP/1.1\r\nHo", b"s"),
    "an upgrade that is ignored": Case(UPGRADE),
    "an upgrade that is ignored, and the preface": Case(UPGRADE + OPENING),
    "half a preface": Case(PREFACE[:9]),
    "the first lines of a preface": Case(PREFACE[:18]),
    "a preface": Case(PREFACE),
    "a preface and settings": Case(OPENING),
    "a preface and pings": Case(OPENING, PINGS),
    "a preface and half a header": Case(OPENING + ask(b"/refuse")[:9], b"\x82"),
    "a header without an end": Case(OPENING + ask(b"/refuse", flags=1)),
    "an answered stream": Case(OPENING + ask(b"/refuse")),
    "an answered stream and pings": Case(OPENING + ask(b"/refuse"), PINGS),
    "an answered stream whose request goes on": Case(OPENING + ask(b"/refuse", flags=4)),
    "a stream that was reset": Case(OPENING + ask(b"/wait") + RESET),
    "a stream that was reset later": Case(OPENING + ask(b"/wait"), RESET),
    "a stream that was refused": Case(OPENING + frame(HEADERS, 4, 1, b"\x02\x07CONNECT\x01\x01a")),
    "a response that fails": Case(OPENING + ask(b"/raise")),
    "TLS, nothing": Case(b"", tls="http/1.1"),
    "TLS, half a head": Case(b"GET / HTTP/1.1\r\nHo", tls="http/1.1"),
    "TLS, a preface": Case(OPENING, tls="http/1.1"),
    "h2 over TLS, nothing": Case(b"", tls="h2"),
    "h2 over TLS, a preface": Case(OPENING, PINGS, tls="h2"),
    "h2 over TLS, an answered stream": Case(OPENING + ask(b"/refuse"), tls="h2"),
    "h2 over TLS, a stream that was reset": Case(OPENING + ask(b"/wait") + RESET, tls="h2"),
}
BUSY = {
    "a request": Case(get_request("/wait")),
    "a request behind another": Case(get_request("/refuse") + get_request("/wait")),
    "a stream": Case(OPENING + ask(b"/wait")),
    "a stream beside one that was reset": Case(OPENING + ask(b"/wait") + ask(b"/wait", 3) + RESET),
    "a stream beside one that was answered": Case(OPENING + ask(b"/wait") + ask(b"/refuse", 3)),
    "h2 over TLS, a stream": Case(OPENING + ask(b"/wait"), tls="h2"),
}


async def is_closed_after(server: Server, case: Case, clock: MockClock, seconds: float) -> bool:
    """Return whether the server closes a connection that goes so, so long after its first bytes and not before."""
    stream: trio.abc.Stream = await server.connect()
    closed = trio.Event()

    async def read() -> None:
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some(2**16):
                pass
        closed.set()

    if case.tls is not None:
        stream = trio.SSLStream(stream, trusting(case.tls), https_compatible=True)
        await stream.do_handshake()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await stream.send_all(case.first)
        await wait_all_tasks_blocked(0.01)
        clock.jump(0.7 * seconds)
        await stream.send_all(case.later)
        await wait_all_tasks_blocked(0.01)
        assert not closed.is_set(), "not before its time"
        clock.jump(0.7 * seconds)  # a request that has ended later began the time anew
        await wait_all_tasks_blocked(0.01)
        clock.jump(0.7 * seconds)
        await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(stream)
    return closed.is_set()


@pytest.fixture
def alpn(tls: ssl.SSLContext) -> ssl.SSLContext:
    """The server's side of TLS, with both protocols."""
    tls.set_alpn_protocols(["h2", "http/1.1"])
    return tls


@pytest.mark.parametrize("case", IDLE.values(), ids=IDLE.keys())
async def test_where_no_request_runs_the_connection_is_closed_in_time(
    case: Case, mock_clock: MockClock, alpn: ssl.SSLContext
) -> None:
    async with serving(tls=alpn if case.tls else None) as server:
        assert await is_closed_after(server, case, mock_clock, KEEP_ALIVE)


@pytest.mark.parametrize("case", BUSY.values(), ids=BUSY.keys())
async def test_where_a_request_runs_it_is_not(case: Case, mock_clock: MockClock, alpn: ssl.SSLContext) -> None:
    async with serving(tls=alpn if case.tls else None) as server:
        assert not await is_closed_after(server, case, mock_clock, KEEP_ALIVE)


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"], ids=["nothing", "its first bytes"])
async def test_a_handshake_that_is_never_finished_is_given_up(
    said: bytes, mock_clock: MockClock, alpn: ssl.SSLContext
) -> None:
    async with serving(tls=alpn) as server:
        assert await is_closed_after(server, Case(said), mock_clock, HANDSHAKE)


async def test_prefaces_do_not_fill_the_server_for_ever(mock_clock: MockClock) -> None:
    """As many as there may be connections: who comes after them is served once they have been idle."""
    async with serving(limits=Limits(connections=8)) as server:
        held = [await server.connect() for _ in range(8)]
        for stream in held:
            await stream.send_all(OPENING)
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(KEEP_ALIVE + 1)
        await wait_all_tasks_blocked(0.01)
        await is_well(server)
        for stream in held:
            await stream.aclose()
