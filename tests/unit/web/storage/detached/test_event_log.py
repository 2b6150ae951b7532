"""A log that several read: nothing is lost or repeated, whenever they come, leave, and come back."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from web.storage.detached.event_log import AttachedStream, EventLog

# What happens one after the other: an event is added, or a reader reads, leaves and comes back, or the log ends.
STEPS = st.lists(st.one_of(st.integers(1, 40), st.sampled_from("abc")), max_size=40)


class Reader:
    """A client that reads some writes, leaves, and comes back with the number of the last event that it knows."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.known: list[bytes] = []

    async def follow(self, writes: int | None) -> None:
        """Read so many writes, all if None, or until nothing is there to be read; then leave."""
        stream, read = AttachedStream(self._log, len(self.known), 16), b""
        with trio.move_on_after(1):
            async for data in stream:
                assert data
                read += data
                if writes is not None:
                    writes -= 1
                    if writes == 0:
                        break
        *whole, _ = read.split(b";")  # what is not whole is not known
        self.known += whole


class Played(NamedTuple):
    """Events of a log, and those that its readers knew after each visit, and behind its end."""

    written: list[bytes]
    visits: list[list[bytes]]
    ends: list[list[bytes]]
    size: int


async def play(steps: list[int | str]) -> Played:
    log, written, visits = EventLog(), list[bytes](), list[list[bytes]]()
    readers: dict[str, Reader] = {}
    for step in steps:
        if isinstance(step, int):
            event = f"{len(log)}{'x' * step}".encode()
            written.append(event)
            log.append(event + b";")
        else:
            reader = readers.setdefault(step, Reader(log))
            await reader.follow(2)
            visits.append(reader.known[:])
    log.end()
    size = log.size
    last = [*readers.values(), Reader(log)]
    for reader in last:
        await reader.follow(None)
    return Played(written, visits, [reader.known for reader in last], size)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_readers_come_and_go(steps: list[int | str]) -> None:
    written, visits, ends, size = trio.run(play, steps, clock=trio.testing.MockClock(autojump_threshold=0))
    assert size == sum(len(event) + 1 for event in written)
    assert all(known == written[: len(known)] for known in visits)
    assert all(known == written for known in ends)


async def test_readers_that_wait_are_all_told(autojump_clock: trio.testing.MockClock) -> None:
    log = EventLog()
    readers = [Reader(log) for _ in range(3)]

    async def write() -> None:
        for number in range(5):
            await trio.sleep(0.1)
            log.append(b"%d;" % number)
        log.end()

    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.follow, None)
        nursery.start_soon(write)
    assert [reader.known for reader in readers] == [[b"0", b"1", b"2", b"3", b"4"]] * 3


async def test_a_reader_may_know_more_than_there_is() -> None:
    log = EventLog()
    log.append(b"a")
    log.end()
    with pytest.raises(StopAsyncIteration):
        await anext(AttachedStream(log, 7, 16))
