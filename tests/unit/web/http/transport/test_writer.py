"""The task that writes a connection's bytes: its order, its waiting producers, and readers that stall."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from web.http.transport.writer import BURST, Writer

SHARE = 1000
STALL_TIMEOUT = 10.0


class SlowWriter(Writer):
    """A writer to nobody, whose reader takes so many bytes every three seconds."""

    rate = 0
    taken = b""

    async def send_some(self, data: memoryview) -> int:
        """Let the reader take some."""
        await trio.sleep(3)
        part = bytes(data[: self.rate])
        self.taken += part
        return len(part)


@pytest.fixture
async def streams() -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    ours, theirs = trio.socket.socketpair()
    async with trio.SocketStream(ours) as stream, trio.SocketStream(theirs) as reader:
        yield stream, reader


@pytest.fixture
def stream(streams: tuple[trio.SocketStream, trio.SocketStream]) -> trio.SocketStream:
    return streams[0]


@pytest.fixture
def reader(streams: tuple[trio.SocketStream, trio.SocketStream]) -> trio.SocketStream:
    return streams[1]


def plain_writer(stream: trio.SocketStream) -> Writer:
    return Writer(stream, share=SHARE, stall_timeout=STALL_TIMEOUT, on_stall=lambda: None)


def slow_writer(stream: trio.SocketStream, rate: int) -> tuple[SlowWriter, list[str]]:
    stalls: list[str] = []
    writer = SlowWriter(stream, share=SHARE, stall_timeout=STALL_TIMEOUT, on_stall=lambda: stalls.append("stalled"))
    writer.rate = rate
    return writer, stalls


async def test_bytes_are_written_in_order_and_who_put_them_waits_until_they_are(
    stream: trio.SocketStream, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    writer, stalls = slow_writer(stream, 400)
    nursery.start_soon(writer.run)
    writer.put(b"a" * 1000)
    writer.put(b"b" * 1000)
    await writer.join()
    assert writer.taken == b"a" * 1000 + b"b" * 1000
    assert not stalls
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("rate", "stalls_at"), [(334, None), (333, STALL_TIMEOUT)])
async def test_a_reader_has_to_take_its_share_in_time(
    stream: trio.SocketStream, autojump_clock: MockClock, rate: int, stalls_at: float | None
) -> None:
    """Three turns of three seconds fit into ten: 3 * 334 is more than a share, 3 * 333 is less."""
    writer, stalls = slow_writer(stream, rate)
    writer.put(bytes(10 * SHARE))
    if stalls_at is None:
        with trio.move_on_after(1000):
            await writer.run()
        assert len(writer.taken) == 10 * SHARE
        assert not stalls
        return
    with trio.move_on_after(1000), pytest.raises(trio.TooSlowError, match="took too little for 10 s"):
        await writer.run()
    assert trio.current_time() == stalls_at
    assert stalls == ["stalled"]


async def test_the_end_of_the_writer_lets_nobody_wait(
    stream: trio.SocketStream, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    writer, _ = slow_writer(stream, 1)
    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            await writer.run()

    nursery.start_soon(run)
    writer.put(bytes(SHARE))
    nursery.start_soon(writer.join)
    await wait_all_tasks_blocked()
    scope.cancel()
    with trio.fail_after(1):
        await writer.join()
        writer.put(b"dropped")
        await writer.join()
    assert scope.cancelled_caught


async def test_what_the_socket_takes_at_once_is_written_without_the_task(
    stream: trio.SocketStream, reader: trio.SocketStream
) -> None:
    writer = plain_writer(stream)
    writer.write_nowait(b"at once")
    assert writer.is_idle
    assert await reader.receive_some() == b"at once"


async def test_what_it_does_not_take_at_once_waits_and_all_else_behind_it(
    stream: trio.SocketStream, reader: trio.SocketStream, nursery: trio.Nursery
) -> None:
    writer, much = plain_writer(stream), bytes(range(250)) * 20_000
    writer.write_nowait(much)
    assert not writer.is_idle
    received = await reader.receive_some(2**16)
    writer.write_nowait(b"the end")  # there is room again, but others wait
    nursery.start_soon(writer.run)
    while len(received) < len(much) + len(b"the end"):
        received += await reader.receive_some(2**16)
    assert received == much + b"the end"
    nursery.cancel_scope.cancel()


async def test_it_never_goes_before_bytes_that_wait(
    stream: trio.SocketStream, reader: trio.SocketStream, nursery: trio.Nursery
) -> None:
    writer = plain_writer(stream)
    writer.put(b"first, ")
    writer.write_nowait(b"second")  # the socket has room
    nursery.start_soon(writer.run)
    await writer.join()
    assert await reader.receive_some() == b"first, second"
    nursery.cancel_scope.cancel()


async def test_after_a_burst_the_task_has_its_turn(
    stream: trio.SocketStream, reader: trio.SocketStream, nursery: trio.Nursery
) -> None:
    """However fast the reader is: or who writes to it would never wait, and nobody else had a turn."""
    writer, piece = plain_writer(stream), bytes(2**12)
    for _ in range(BURST // len(piece)):
        writer.write_nowait(piece)
        assert writer.is_idle
        assert await reader.receive_some() == piece
    writer.write_nowait(piece)
    waits = not writer.is_idle
    assert waits
    nursery.start_soon(writer.run)
    await writer.join()
    assert await reader.receive_some() == piece
    writer.write_nowait(piece)
    assert writer.is_idle, "the task had its turn"
    nursery.cancel_scope.cancel()


async def test_nothing_is_written_once_the_task_has_ended(stream: trio.SocketStream, reader: trio.SocketStream) -> None:
    """Half a write may have gone out; what follows would be taken for its other half."""
    writer = plain_writer(stream)
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.run()
    writer.write_nowait(b"dropped")
    assert not writer.is_idle
    with trio.fail_after(60):
        await writer.join()
    await stream.send_eof()
    assert await reader.receive_some() == b""


async def test_an_error_of_the_socket_is_left_to_the_task(stream: trio.SocketStream, reader: trio.SocketStream) -> None:
    await reader.aclose()
    writer = plain_writer(stream)
    writer.write_nowait(b"nobody reads this")
    assert not writer.is_idle
    with pytest.raises(OSError, match="pipe"):
        await writer.run()
