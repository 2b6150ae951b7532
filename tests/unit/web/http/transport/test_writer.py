"""The task that writes a connection's bytes: its order, its waiting producers, and readers that stall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from web.http.transport.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

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
async def stream() -> AsyncIterator[trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    async with trio.SocketStream(ours) as stream, trio.SocketStream(theirs):
        yield stream


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
