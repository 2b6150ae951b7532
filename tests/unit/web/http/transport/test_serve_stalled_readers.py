"""Serving connections: a reader that has stalled is cut, a slow one is not."""

import ssl

import h2.events
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.live.h2_client import H2Client
from tests.live.server import PATIENCE
from tests.unit.web.http.transport.guarded import (
    BIG,
    CHUNK,
    get_request,
    happens,
    is_well,
    read_answers,
    read_on,
    serving,
)
from web.http.transport.writer import Writer

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

    async def drip(_self: Writer, data: memoryview) -> int:
        await trio.sleep(9)
        return min(1000, len(data))

    monkeypatch.setattr(Writer, "send_some", drip)
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


async def test_tls(tls: ssl.SSLContext) -> None:
    """Over TLS too: an answer, a close behind pipelined bytes, a stalled reader."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(stall_timeout=0.5, tls=tls) as server:
        streams = [trio.SSLStream(await server.connect(), trusting, https_compatible=True) for _ in range(3)]
        for stream, path in zip(streams, ["/refuse", "/wait", "/flood"], strict=True):
            await stream.send_all(get_request(path) + b"\r\n")
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
