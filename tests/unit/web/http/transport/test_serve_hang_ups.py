"""Serving connections: a close is seen, whatever was sent before it."""

import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.live.h2_client import H2Client
from tests.live.server import PATIENCE
from tests.unit.web.http.transport.guarded import CHUNK, get_request, happens, read_answers, serving
from web.http.transport.loop_share import LoopShare
from web.process.limits import FRAME_BURST, MAX_UNHANDLED

Hangup = Callable[[trio.SocketStream], Awaitable[None]]


async def send_on(stream: trio.SocketStream) -> None:
    """Send until there is an error."""
    while True:
        await stream.send_all(CHUNK)


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
    [b"", b"\r\n", get_request("/wait/next"), get_request("/wait/next")[:9], get_request("/wait/next") * 99],
    ids=["nothing", "newline", "request", "part", "many"],
)
async def test_hanging_up_cancels_that_request(hang_up: Hangup, pipelined: bytes) -> None:
    async with serving() as server, await server.get("/wait/bystander") as bystander:
        other = await server.app.visit()
        stream = await server.get("/wait", after=pipelined)
        visit = await server.app.visit()
        await stream.send_all(pipelined)  # and some later, when the protocol is already preempted
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
        await stream.send_all(b"".join(map(get_request, paths)))
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


async def test_a_wait_for_a_turn_is_not_the_clients_stall(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where hundreds of connections have something to handle, each waits for the others."""
    others_are_done, size = trio.Event(), 3 * MAX_UNHANDLED
    async with serving(stall_timeout=2) as server, await server.connect() as stream:
        await stream.send_all(get_request("/refuse"))
        await read_answers(stream, 1)
        monkeypatch.setattr(LoopShare, "turn", lambda _: others_are_done.wait())
        async with trio.open_nursery() as nursery:
            head = b"POST /measure HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % size
            nursery.start_soon(stream.send_all, head + bytes(size))
            for _ in range(3):
                await wait_all_tasks_blocked(0.05)
                mock_clock.jump(3)
            await wait_all_tasks_blocked(0.05)
            others_are_done.set()
            assert await read_answers(stream, 1) == [(200, str(size).encode())]
    assert caplog.text == ""


async def test_body_in_crumbs_is_not_mistaken_for_a_pipeline() -> None:
    """The protocol needs a while for many small chunks; the reader waits for it."""
    crumbs = 2 * MAX_UNHANDLED // 69
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(b"POST /measure HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, (b"40\r\n" + bytes(64) + b"\r\n") * crumbs + b"0\r\n\r\n")
            assert await read_answers(stream, 1) == [(200, str(64 * crumbs).encode())]


async def test_a_body_in_crumbs_without_an_end_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Each costs as much as a whole body; what is left of it when its client has gone would be worked off for long."""
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(b"POST /measure HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        await stream.send_all(b"1\r\n \r\n" * (FRAME_BURST + 500))
        assert (await read_answers(stream, 1))[0][0] == 400
        await happens((await server.app.visit()).ended)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "upgrade", ["h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "websocket\r\nSec-WebSocket-Version: 13"]
)
async def test_an_upgrade_is_ignored(upgrade: str) -> None:
    """As a server may: the request is answered as it is, and the connection goes on."""
    head = (
        f"GET /refuse HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\n\r\n"
    )
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(head.encode() + get_request("/refuse"))
        assert await read_answers(stream, 2) == [(404, b"no"), (404, b"no")]
