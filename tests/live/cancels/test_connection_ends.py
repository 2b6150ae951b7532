"""Every way in which a connection can end, in each phase of a request: afterwards it is gone, and has its receipt."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from h2.errors import ErrorCodes
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fakes.simulation import ask, prompt
from tests.live.cancels.connections import (
    STALL_TIMEOUT,
    STEP,
    Client,
    End,
    Server,
    frame_of,
    frames,
    in_phase,
    leave,
    serving,
)

STEPS_TO_END = 20

PHASES = ("queued", "prefill", "decode", "unread")


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
    """With one write: between two the server may hand an answer that nobody reads to the socket, which then waits."""
    await client.stream.send_all(2 * frame_of(8, 0, client.stream_id, struct.pack(">I", 2**31 - 1)))


async def go_and_close(client: Client) -> None:
    await leave(0)(client)
    await client.stream.aclose()


async def stop_serving(client: Client) -> None:
    """The server's own end; what has not finished when its linger is over is cancelled."""
    client.server.stop.set()
    await wait_all_tasks_blocked(0.001)
    client.server.clock.jump(3.1)


async def read_nothing(client: Client) -> None:
    """For longer than the server waits, and again where a last byte went into a buffer meanwhile."""
    for _ in range(40):
        client.server.clock.jump(STALL_TIMEOUT / 3)
        await wait_all_tasks_blocked(0.001)
        if not client.server.live():
            return


BY_SOCKET: dict[str, End] = {"close": close, "reset": reset, "half-close": half_close, "server stops": stop_serving}
BY_STREAM: dict[str, End] = {"RST_STREAM": reset_stream, "its window overflows": overflow_stream_window}
BY_FRAME: dict[str, End] = {
    "GOAWAY, an error": leave(ErrorCodes.INTERNAL_ERROR),
    "GOAWAY, then close": go_and_close,
    "data for no stream": frames(frame_of(0, 0, 0, b"x")),
    "data for an idle stream": frames(frame_of(0, 0, 99, b"x")),
    "connection's window overflows": frames(frame_of(8, 0, 0, struct.pack(">I", 2**31 - 1))),
    "push from a client": frames(frame_of(5, 4, 1, struct.pack(">I", 2) + b"\x82")),
    "headers that are not HPACK": frames(frame_of(1, 5, 101, b"\xff\xff\xff\xff\xff\xff\xff")),
    "a stream that goes back": frames(frame_of(1, 5, 1, b"\x82\x84\x86")),
    "endless headers": frames(frame_of(1, 0, 101, b"\x82"), *[frame_of(9, 0, 101, b"") for _ in range(70)]),
    "a frame too long": frames(frame_of(0, 0, 1, bytes(2**14 + 1))),
    "a window of 2**31": frames(frame_of(4, 0, 0, struct.pack(">HI", 4, 2**31))),
    "a stream that depends on itself": frames(frame_of(2, 0, 101, struct.pack(">IB", 101, 1))),
    "padding beyond the frame": frames(frame_of(0, 8, 1, b"\xff")),
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
