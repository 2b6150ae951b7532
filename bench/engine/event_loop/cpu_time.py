"""The CPU time of the event loop's thread: for a request, for one that is hung up on, and for a token of a stream.

    python -m bench.engine.event_loop.cpu_time [--rounds 5] [--requests 120] [--shares CASE]

The embedded model is served in this process, over a socket of loopback, to a client in another process.  The thread's
CPU time is read before and after a number of requests; the device thread's is not in it, nor is waiting, so other
programs on the machine change little.  The cases take turns, and the medians of the rounds count.

`--shares hang-up` profiles a case instead, and shows who has the code that ran.  A profiler makes calls of Python
dearer than all else, so shares are what it is good for.
"""

from __future__ import annotations

import gc
import os
import secrets
import statistics
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager, redirect_stderr
from typing import TYPE_CHECKING

import click
import httpx
import trio

from actors.config import EngineConfig
from bench.engine.event_loop.client import CASES, STREAMED
from bench.engine.event_loop.shares import profiled, table
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.store.resolve import resolve_model
from web.observability.logs.setup import log_to_stderr
from web.serving.server import ServerOptions, open_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SETTLE_SECONDS = 0.1
"""Seconds after which the server has put away all that belongs to the requests before."""


class Client:
    """The client's process.

    Args:
        process: that it is, with pipes.
    """

    def __init__(self, process: trio.Process) -> None:
        self._process = process

    async def run(self, case: str, requests: int) -> None:
        """Have it send so many requests, and return when the server is done with them.

        Raises:
            ConnectionError: it could not.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.send_all(f"{case} {requests}\n".encode())
        said = b""
        while not said.endswith(b"\n"):
            if not (more := await self._process.stdout.receive_some()):
                raise ConnectionError(f"the client gave up over {case!r}")
            said += more
        await trio.sleep(SETTLE_SECONDS)


@asynccontextmanager
async def open_client(url: str, key: str) -> AsyncIterator[Client]:
    """A client of a server, while the scope lasts."""
    command = [sys.executable, "-m", "bench.engine.event_loop.client", str(httpx.URL(url).port), key]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Client(process)
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def open_served(slots: int = 4) -> AsyncIterator[Client]:
    """A server in this process, and its client in another."""
    key = secrets.token_urlsafe()
    load = LoadOptions(path=resolve_model(None), slots=slots, speculate=Proposer.OFF)
    options = ServerOptions(load, "cede", EngineConfig(slots=slots, speculate=Proposer.OFF))
    async with open_server(options, key) as url, open_client(url, key) as client:
        yield client


async def seconds_each(
    client: Client, case: str, requests: int, clock: Callable[[], float] = time.thread_time
) -> float:
    """Return the seconds of this thread for a request."""
    began = clock()
    await client.run(case, requests)
    return (clock() - began) / requests


def per_token(stream: float, one: float) -> float:
    """Return the seconds of a token, from those of a stream and of a request for one token."""
    return (stream - one) / (STREAMED - 1)


async def measure(rounds: int, requests: int) -> dict[str, list[float]]:
    """Return the seconds of a request of each case, round by round, and those of a token."""
    figures: dict[str, list[float]] = {name: [] for name in (*CASES, "token")}
    async with open_served() as client:
        for case in CASES:
            await client.run(case, 20)
        gc.collect()
        gc.freeze()  # as `cede serve` does
        for _ in range(rounds):
            for case in CASES:
                figures[case].append(await seconds_each(client, case, requests))
            figures["token"].append(per_token(figures["stream"][-1], figures["kept"][-1]))
    return figures


async def profile(case: str, requests: int) -> list[str]:
    """Return the lines of a table: who has the code that ran for the requests of a case."""
    async with open_served() as client:
        await client.run(case, 20)
        with profiled() as found:
            await client.run(case, requests)
    return table(found, requests)


def report(figures: dict[str, list[float]]) -> list[str]:
    """Return a line for each case: the median of its rounds, the least and the most."""
    about = {name: case.about for name, case in CASES.items()} | {"token": "each token of a stream"}
    lines = []
    for name, seconds in figures.items():
        median, low, high = (1e3 * figure for figure in (statistics.median(seconds), min(seconds), max(seconds)))
        lines.append(f"{median:.3f} ms ({low:.3f} to {high:.3f}): {about[name]}")
    return lines


@contextmanager
def _logging_nowhere(level: str) -> Iterator[None]:
    """Have each line of the log made, as `cede serve` does for a program that reads it, and thrown away."""
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        log_to_stderr(level, "json", {})
        yield


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=120, show_default=True, help="Of each case in each round.")
@click.option("--log-level", default="info", show_default=True, help="As for `cede serve`; the log goes nowhere.")
@click.option("--shares", type=click.Choice([*CASES]), help="Profile this case instead.")
def main(rounds: int, requests: int, log_level: str, shares: str | None) -> None:
    """Measure."""
    with _logging_nowhere(log_level):
        if shares is not None:
            lines = trio.run(profile, shares, requests)
        else:
            lines = report(trio.run(measure, rounds, requests))
    for line in lines:
        click.echo(line)


if __name__ == "__main__":
    main()
