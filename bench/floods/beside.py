"""Cost of floods for a neighbour's stream: one server after the other, each stream alone and one beside a flood.

A token takes the longer, the more tokens stand before it; so the pace alone is that of the very same tokens.
"""

from __future__ import annotations

import json
import sys
import time
from bisect import bisect_left
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import trio

from bench.engine.serving import open_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BODY = json.dumps({"prompt": "import os", "max_tokens": 3900, "ignore_eos": True, "stream": True}).encode()
REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)

START_SECONDS = 1.5
"""Seconds until the clients' processes have started and flood."""

LEAST_EVENTS = 100
"""Events alone, at least, with which a stream is compared that a flood has stopped."""

LOOK_SECONDS = 0.1
"""Seconds between two looks at the server's CPU time."""

BUSY_SHARE = 0.2
"""Share of a core from which on the server counts as busy."""

MAX_BUSY = 90.0
"""Seconds after which waiting for the server to rest is given up."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load of a flood: how long clients flood, and how many."""

    seconds: float
    clients: int


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of one flood.

    Attributes:
        alone, beside: the stream's events a second, without the flood and beside it.
        gap_alone, gap: the longest time without an event, in seconds, of the same two.
        busy: seconds for which the server was busy after all clients had gone.
        connections, sent, cut_off: of the flooding clients together: see `bench.floods.client`.
    """

    alone: float
    beside: float
    gap_alone: float
    gap: float
    busy: float
    connections: int
    sent: int
    cut_off: int


@dataclass(eq=False)
class Neighbour:
    """A client that streams a completion, and notes when each event comes."""

    port: int
    times: list[float] = field(default_factory=list)

    async def stream(self) -> None:
        """Stream until cancelled; the connection ends with it."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as connection:
            await connection.send_all(REQUEST)
            while data := bytes(await connection.receive_some()):
                self.times += [trio.current_time()] * data.count(b"data: ")
            raise EOFError("the neighbour's stream was broken off")

    def count(self, until: float) -> int:
        """Return how many events came before a time."""
        return bisect_left(self.times, until)

    def between(self, since: float, until: float) -> tuple[float, float]:
        """Return the events a second in a time, and the longest gap in it."""
        came = self.times[self.count(since) : self.count(until)]
        return len(came) / (until - since), max(after - before for before, after in pairwise([since, *came, until]))


async def measure(kind: str, load: Load) -> Impact:
    """Measure one flood, on a server of its own."""
    # A drafter that catches up would make a gap that no flood has made.
    async with open_server("--speculate", "off") as url:
        port = urlsplit(url).port
        assert port is not None
        server, alone, beside = _listener(port), Neighbour(port), Neighbour(port)
        with trio.move_on_after(START_SECONDS + load.seconds):
            await alone.stream()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside.stream)
            async with _flooding(kind, port, load) as floods:
                await trio.sleep(START_SECONDS)
                flooded = trio.current_time()
                await trio.sleep(load.seconds)
                ended = trio.current_time()
            nursery.cancel_scope.cancel()
        busy = await _seconds_until_idle(server)
    pace, gap = beside.between(flooded, ended)
    pace_alone, gap_alone = alone.between(*same_events(alone, beside.count(flooded), beside.count(ended)))
    sums = {name: sum(done[name] for done in floods) for name in ("connections", "sent", "cut_off")}
    return Impact(pace_alone, pace, gap_alone, gap, busy, **sums)


def same_events(alone: Neighbour, first: int, last: int) -> tuple[float, float]:
    """Return from when to when the events of these numbers came alone, as far as they did."""
    newest = len(alone.times) - 1
    first = min(first, newest - LEAST_EVENTS)
    return alone.times[first], alone.times[min(max(last, first + LEAST_EVENTS), newest)]


@asynccontextmanager
async def _flooding(kind: str, port: int, load: Load) -> AsyncIterator[list[dict[str, int]]]:
    """Let clients flood, in processes of their own; at the end of the scope wait for what they say they did."""
    start = time.monotonic() + START_SECONDS
    command = [sys.executable, "-m", "bench.floods.client", kind, str(port), str(start), str(load.seconds)]
    said: list[dict[str, int]] = []

    async def run() -> None:
        done = await trio.run_process(command, capture_stdout=True)
        said.append(json.loads(done.stdout))

    async with trio.open_nursery() as nursery:
        for _ in range(load.clients):
            nursery.start_soon(run)
        yield said


async def _seconds_until_idle(server: psutil.Process) -> float:
    """Wait until the server rests, and return for how long it did not."""
    began = last_busy = trio.current_time()
    server.cpu_percent()
    while trio.current_time() - last_busy < 1 and trio.current_time() - began < MAX_BUSY:
        await trio.sleep(LOOK_SECONDS)
        if server.cpu_percent() > 100 * BUSY_SHARE:
            last_busy = trio.current_time()
    return last_busy - began


def _listener(port: int) -> psutil.Process:
    for child in psutil.Process().children(recursive=True):
        if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in child.net_connections("tcp")):
            return child
    raise LookupError(f"nobody listens at {port}")


def describe(kind: str, impact: Impact) -> str:
    """Return a line of the table."""
    return (
        f"| {kind} | {impact.alone:.0f} | {impact.beside:.0f} | {impact.beside / impact.alone:.2f} | "
        f"{impact.gap_alone * 1e3:.0f} | {impact.gap * 1e3:.0f} | {impact.busy:.1f} | "
        f"{impact.connections} | {impact.sent / 1e6:.1f} |"
    )


HEAD = """\
| flood | events/s alone | beside | share | longest gap alone, ms | beside | busy after, s | connections | MB sent |
|---|---|---|---|---|---|---|---|---|"""


def withstood(impact: Impact) -> bool:
    """Return whether the stream kept half of its speed, without a gap above 100 ms, and the server then rested."""
    return impact.beside >= impact.alone / 2 and impact.gap <= 0.1 and impact.busy <= 2
