"""What floods cost a neighbour's stream: one server after the other, each with a stream and one kind of flood."""

from __future__ import annotations

import json
import sys
import time
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

LOOK_SECONDS = 0.1
"""Seconds between two looks at the server's CPU time."""

BUSY_SHARE = 0.2
"""Share of a core from which on the server counts as busy."""

MAX_BUSY = 90.0
"""Seconds after which waiting for the server to rest is given up."""


@dataclass(frozen=True, slots=True)
class Load:
    """How long to watch the stream alone, how many clients flood then, and for how long."""

    alone: float
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
    """A client that streams one completion after the other, and notes when events come."""

    port: int
    arrivals: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    async def stream(self) -> None:
        """Stream until cancelled; the connection ends with it."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as connection:
            while True:
                await connection.send_all(REQUEST)
                tail = b""
                while not tail.endswith(b"0\r\n\r\n"):
                    data = bytes(await connection.receive_some())
                    if not data:
                        raise EOFError("the neighbour's stream was broken off")
                    self.arrivals.append(trio.current_time())
                    self.counts.append(data.count(b"data: "))
                    tail = (tail + data)[-5:]

    def between(self, since: float, until: float) -> tuple[float, float]:
        """Return the events a second in a time, and the longest gap in it."""
        events = sum(count for at, count in zip(self.arrivals, self.counts, strict=True) if since <= at < until)
        moments = [since, *(at for at in self.arrivals if since <= at < until), until]
        return events / (until - since), max(after - before for before, after in pairwise(moments))


async def measure(kind: str, load: Load) -> Impact:
    """Measure one flood, on a server of its own."""
    async with open_server() as url:
        port = urlsplit(url).port
        assert port is not None
        server, neighbour = _listener(port), Neighbour(port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(neighbour.stream)
            await trio.sleep(1)  # the first tokens
            began = trio.current_time()
            await trio.sleep(load.alone)
            async with _flooding(kind, port, load) as floods:
                alone_until = trio.current_time()
                await trio.sleep(START_SECONDS)
                flooded = trio.current_time()
                await trio.sleep(load.seconds)
                ended = trio.current_time()
            nursery.cancel_scope.cancel()
        busy = await _seconds_until_idle(server)
    alone, gap_alone = neighbour.between(began, alone_until)
    beside, gap = neighbour.between(flooded, ended)
    sums = {name: sum(done[name] for done in floods) for name in ("connections", "sent", "cut_off")}
    return Impact(alone, beside, gap_alone, gap, busy, **sums)


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
