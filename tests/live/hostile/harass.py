"""A run of hostile requests against one server, and what it looks like behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

import trio

from tests.hostile.bodies import draw_body
from tests.hostile.large import large_bodies
from tests.hostile.requests import draw_request
from tests.hostile.visits import draw_visit
from tests.live.hostile.crowd import Crowd, Hostile, Neighbour, Round
from tests.live.server import Json, Server
from tests.soak.record import Figures, describe_loop

FLAGS = [  # a context in which the longest answer is short
    *("--dtype", "float32", "--slots", "4", "--queue", "64", "--context", "512", "--kv-ram", "8MiB"),
    *("--chunk-tokens", "16"),  # or the kernels for chunks of ever other lengths take memory for a long time
    *("--watch-loop", "50", "--log-level", "warning", "--state-size", "4MiB", "--background-events", "4MiB"),
]
WARM_UP = 50  # requests
MAX_ROUNDS = 3  # of the same requests, of which one may not grow the memory
SIZE = 256 * 2**10  # bytes of each large body
MEMORY_BOUND = 50 * 10**6  # bytes

DRAWN: dict[str, Callable[[int], Hostile]] = {"body": draw_body, "request": draw_request, "visit": draw_visit}
SHARES = ("body", "body", "request", "body", "request", "visit")
"""What is drawn in turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """Record of what the server did; `before` and `after` the requests it was idle."""

    found: Round
    before: Figures
    after: Figures
    statistics: Json
    health: int
    log: str

    def __str__(self) -> str:
        """Say in a few lines how the requests were answered, and what they cost."""
        grown = (self.after.memory - self.before.memory) / 1e6
        answers = [f"{count:7} {kind}: {status}" for (kind, status), count in sorted(self.found.answers.items())]
        return "\n".join(
            [
                *answers,
                f"{self.found.answers.total():7} answers in all; {self.found.compared} tokens of neighbours compared",
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


def harass(server: Server, *, requests: int, seed: int, size: int = SIZE) -> Report:
    """Send so many requests to a fresh server, and one of `size` bytes of each large kind; again while memory grows."""
    crowd = Crowd(server, Neighbour.all(server))
    trio.run(crowd.send, mixed(seed, -WARM_UP, 0, size))
    server.wait_idle()
    found = Round()
    for _ in range(MAX_ROUNDS):
        before = Figures.of(server)
        found.add(trio.run(crowd.send, mixed(seed, 0, requests, size)))
        server.wait_idle()
        after = Figures.once_back_at(before, server)
        if after.memory <= before.memory + MEMORY_BOUND:
            break  # what kernels and allocators take once may come late; what leaks is taken in each round
    health, _ = server.ask("GET", "/health")
    return Report(found, before, after, server.get("/v1/statistics"), health, server.log())


def replay(server: Server, what: str) -> Round:
    """Send one request again, by what a fault calls it, such as `body 17`."""
    return trio.run(Crowd(server, []).send, [again(what)])


def again(what: str) -> Hostile:
    """Draw a request again."""
    kind, _, number = what.partition(" ")
    if kind in DRAWN:
        return DRAWN[kind](int(number))
    (large,) = (body for body in large_bodies(SIZE) if body.what == what)
    return large


def mixed(seed: int, first: int, end: int, size: int) -> Iterator[Hostile]:
    """Draw those of the numbers from `first` to `end` of a seed, and the large ones evenly between them."""
    large = large_bodies(size)
    every = max(1, (end - first) // len(large))
    for place, number in zip(cycle(range(every)), range(first, end), strict=False):
        if place == 0 and large:
            yield large.pop(0)
        yield DRAWN[SHARES[number % len(SHARES)]](1_000_000 * seed + number)
    yield from large
