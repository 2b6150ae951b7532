"""Hostile bodies and requests on one server, to all its routes, and two neighbours that decode beside them.

    python -m tests.live.hostile --requests 10000 --seed 5 --size 15000000

The neighbours' tokens must be those that they have alone; no answer is a 5xx; at the end nothing lives or is leased,
and the server's memory is back where it was after a round of the same kinds of bodies, the third at the latest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING

import click
import httpx
import trio

from tests.live.hostile_bodies import HostileBody, draw_body, large_bodies
from tests.live.hostile_requests import HostileRequest, draw_request
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Server
from tests.soak.clients import Events, open_http1
from tests.soak.record import Figures, describe_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.live.server import Json

Hostile = HostileBody | HostileRequest

FLAGS = [  # a context in which the longest answer is short
    *("--dtype", "float32", "--slots", "4", "--queue", "64", "--context", "512", "--kv-ram", "8MiB"),
    *("--chunk-tokens", "16"),  # or the kernels for chunks of ever other lengths take memory for a long time
    *("--watch-loop", "50", "--log-level", "warning"),
]
NEIGHBOUR_TOKENS = 200
POSTERS = 3  # hostile clients at a time
WARM_UP = 50  # bodies
MAX_ROUNDS = 3  # of the same bodies, of which one may not grow the memory
SIZE = 256 * 2**10  # bytes of each large body
MEMORY_BOUND = 50 * 10**6  # bytes
FAILURES = (b'"server_error"', b'"internal_error"', b'"api_error"')  # also in streams that have begun
PAUSE = 0.3  # seconds until a client that got no answer says that it will send no more
PATIENCE = 300.0  # seconds; only what hangs takes so long


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A decent client: what it asks, again and again, and the tokens that it gets when it is alone."""

    body: Json
    tokens: list[int]

    @classmethod
    def all(cls, server: Server) -> list[Neighbour]:
        """One that is greedy and one that draws, on an idle server."""
        plain = completion(prompt(20, 1), NEIGHBOUR_TOKENS, speculate=False)
        drawn = completion(prompt(30, 2), NEIGHBOUR_TOKENS, temperature=1, seed=77)
        neighbours = []
        for body in (plain, drawn):
            with Http1(server, body) as alone:
                neighbours.append(cls(body, alone.read_all()))
        return neighbours


@dataclass(slots=True)
class Round:
    """What came of some bodies: how many answers of each status, and what must not have come."""

    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    compared: int = 0  # tokens of the neighbours

    def add(self, other: Round) -> None:
        """Take in what came of more bodies."""
        self.answers += other.answers
        self.faults += other.faults
        self.compared += other.compared


class Crowd:
    """Sends bodies to a server, beside its neighbours."""

    def __init__(self, server: Server, neighbours: Sequence[Neighbour]) -> None:
        self._server = server
        self._neighbours = neighbours

    async def send(self, bodies: Iterable[Hostile]) -> Round:
        """All of them, some at a time; each neighbour has at least one whole answer meanwhile."""
        found, waiting = Round(), iter(bodies)
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            for neighbour in self._neighbours:
                nursery.start_soon(self._keep_asking, neighbour, found, over)
            async with httpx.AsyncClient(base_url=self._server.url, timeout=PATIENCE, trust_env=False) as http:
                async with trio.open_nursery() as posters:
                    for _ in range(POSTERS):
                        posters.start_soon(self._post_all, http, waiting, found)
            over.set()
        return found

    async def _post_all(self, http: httpx.AsyncClient, bodies: Iterator[Hostile], found: Round) -> None:
        for body in bodies:
            with trio.move_on_after(PATIENCE) as patience:
                if isinstance(body, HostileRequest):
                    status, answer = await _send(self._server.address, body)
                else:
                    status, answer = await _post(http, body)
            if patience.cancelled_caught:
                status, answer = "none", b""
            found.answers[status] += 1
            is_fine = status[0] in "24" or (status == "501" and isinstance(body, HostileRequest))  # as of RFC 9112, 6.1
            if not is_fine or any(words in answer for words in FAILURES):
                found.faults.append(f"{status} for {body}; {answer[-500:]!r}")

    async def _keep_asking(self, neighbour: Neighbour, found: Round, over: trio.Event) -> None:
        content = json.dumps(neighbour.body).encode()
        while True:
            async with open_http1(self._server.address) as exchange:
                await exchange.ask("POST", COMPLETIONS, content)
                status, headers = await exchange.head()
                if status == 429:  # the queue is full of others, who came in good order
                    await trio.sleep(float(headers.get("retry-after", "1")))
                    continue
                events = Events(exchange)
                await events.read()
            if (status, events.tokens) != (200, neighbour.tokens):
                found.faults.append(f"a neighbour got {status}, {events.errors}, {events.tokens}: not {neighbour}")
            found.compared += len(events.tokens)
            if over.is_set():
                return


async def _send(address: tuple[str, int], request: HostileRequest) -> tuple[str, bytes]:
    """The status and the answer of the last of its answers; `2`, too, if the client was gone before there was any."""
    answer = bytearray()

    async def read() -> None:
        with suppress(trio.BrokenResourceError):
            while data := await stream.receive_some():
                answer.extend(data)

    async with await trio.open_tcp_stream(*address) as stream:
        with suppress(trio.BrokenResourceError):  # the server need not read to the end what it does not understand
            await stream.send_all(request.raw)
            with trio.move_on_after(PAUSE) as pause:
                await read()
            if pause.cancelled_caught and not answer:  # perhaps it waits for more
                await stream.send_eof()
        await read()
    statuses = re.findall(rb"^HTTP/1.1 (\d+)", answer, re.MULTILINE)
    return (statuses[-1].decode() if statuses else "2 (unanswered)"), bytes(answer)


async def _post(http: httpx.AsyncClient, body: HostileBody) -> tuple[str, bytes]:
    """The status, and the answer; a server that breaks off is a status of its own."""
    headers = {"content-type": body.content_type} if body.content_type else {}
    try:
        answer = await http.post(body.path, content=body.raw, headers=headers)
    except httpx.HTTPError as error:
        return f"broken off ({type(error).__name__})", b""
    return str(answer.status_code), answer.content


@dataclass(frozen=True, slots=True)
class Report:
    """What the server did; `before` and `after` the bodies it was idle."""

    found: Round
    before: Figures
    after: Figures
    statistics: Json
    health: int
    log: str

    def __str__(self) -> str:
        """Say in a few lines how the bodies were answered, and what they cost."""
        grown = (self.after.memory - self.before.memory) / 1e6
        answers = ", ".join(f"{count} of {status}" for status, count in sorted(self.found.answers.items()))
        return "\n".join(
            [
                f"answers: {answers}; {self.found.compared} tokens of neighbours compared",
                f"memory: {self.before.memory / 1e6:.0f} MB after the warm-up, {grown:+.0f} MB at the end",
                describe_loop(self.statistics["loop"]),
                *self.found.faults,
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if anybody was harmed."""
        assert not self.found.faults, self
        assert self.found.compared, self
        assert self.health == 200, self
        manager = self.statistics["manager"]
        assert (self.statistics["live_requests"], manager["queued"], manager["leased"]) == (0, 0, 0), self.statistics
        assert manager["failed_steps"] == 0, self.statistics
        assert self.after.memory <= self.before.memory + MEMORY_BOUND, self
        assert "ERROR" not in self.log, self.log[-4000:]
        assert "Traceback" not in self.log, self.log[-4000:]


def harass(server: Server, *, bodies: int, seed: int, size: int = SIZE) -> Report:
    """Send so many bodies to a fresh server, and one of `size` bytes of each large kind; again while memory grows."""
    crowd = Crowd(server, Neighbour.all(server))
    trio.run(crowd.send, _mixed(seed, -WARM_UP, 0, size))
    server.wait_idle()
    found = Round()
    for _ in range(MAX_ROUNDS):
        before = Figures.of(server)
        found.add(trio.run(crowd.send, _mixed(seed, 0, bodies, size)))
        server.wait_idle()
        after = Figures.once_back_at(before, server)
        if after.memory <= before.memory + MEMORY_BOUND:
            break  # what kernels and allocators take once may come late; what leaks is taken in each round
    health, _ = server.ask("GET", "/health")
    return Report(found, before, after, server.get("/v1/statistics"), health, server.log())


def _mixed(seed: int, first: int, end: int, size: int) -> Iterator[Hostile]:
    """Those of the numbers from `first` to `end` of a seed, and the large ones evenly between them."""
    large = large_bodies(size)
    every = max(1, (end - first) // len(large))
    for place, number in zip(cycle(range(every)), range(first, end), strict=False):
        if place == 0 and large:
            yield large.pop(0)
        drawn = 1_000_000 * seed + number
        yield draw_body(drawn) if number % 3 else draw_request(drawn)
    yield from large


@click.command()
@click.option("--requests", type=int, default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--size", type=int, default=SIZE, show_default=True, help="Bytes of each large body.")
def main(requests: int, seed: int, size: int) -> None:
    """Harass a server of its own, and say what it took."""
    with Server(*FLAGS) as server:
        report = harass(server, bodies=requests, seed=seed, size=size)
        click.echo(report)
        report.check()


if __name__ == "__main__":
    main()
