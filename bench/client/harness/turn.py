"""One target's turn in one round, which a scenario is given, and helpers that several scenarios share."""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import trio

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import percentile
from bench.client.harness.trace import RequestFailed, Trace

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from bench.client.harness.client import Client
    from bench.client.harness.figures import Figure
    from bench.client.harness.prompts import PromptMaker

T = TypeVar("T")

PROBE_TOKENS = 16
"""Tokens in the prompt of a short request."""

QUICK_PROBES = 3
"""Short requests in a row that have to be as quick as on an idle server, until the server counts as idle."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One target's turn.

    Attributes:
        client: sends requests to the target.
        prompts: makes prompts that are new to the server.
        rng: draws the same for every target of a round.
        round: counted from 0.
        limit: seconds after which to give up waiting until the server is free again.
        note: shows on the terminal what is going on.
        memory: returns the resident bytes of the server; None if they cannot be seen.
    """

    client: Client
    prompts: PromptMaker
    rng: random.Random
    round: int = 0
    limit: float = 120.0
    note: Callable[[str], None] = lambda _: None
    memory: Callable[[], int | None] = lambda: None

    def short(self) -> RequestSpec:
        """Return a short request for one token, which is new to the server."""
        return RequestSpec(self.prompts.make(PROBE_TOKENS), max_tokens=1)


class Scenario(Protocol):
    """A benchmark: a frozen dataclass whose fields are its sizes, made by `size`.  Its docstring is its help text.

    Attributes:
        name: of the subcommand.
    """

    name: ClassVar[str]
    __doc__: str | None

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Run one round on one target and return its figures.

        Raises:
            RequestFailed: the server did not do what the scenario needs.  May be in a group.
        """


def size(default: Any, help: str) -> Any:  # noqa: ANN401  # as `dataclasses.field`
    """Define a field of a scenario, which becomes an option of `cede bench run SCENARIO`."""
    return field(default=default, metadata={"help": help})


async def send_all(client: Client, specs: Iterable[RequestSpec]) -> list[Trace]:
    """Send requests at the same time and return their traces when all have been answered."""
    pairs = [(spec, Trace()) for spec in specs]
    async with trio.open_nursery() as nursery:
        for spec, trace in pairs:
            nursery.start_soon(client.send, spec, trace)
    return [trace for _, trace in pairs]


def check_in_prefill(trace: Trace) -> None:
    """Raise RequestFailed if a request that was hung up on had left its prompt behind."""
    if trace.tokens:
        raise RequestFailed("the prompt had been read before the hang-up; take a longer one, or an earlier moment")


# --- is the device free? --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Seconds to the first token of short requests to a server that has nothing to finish."""

    median: float
    slowest: float

    def is_quick(self, ttft: float) -> bool:
        """Return whether a time to first token is no longer than these, but for noise: a quarter, and 20 ms."""
        return ttft <= 1.25 * self.slowest + 0.02


@dataclass(frozen=True, slots=True)
class Freed:
    """The recovery of a server from a hang-up, in seconds.

    Attributes:
        next_request: the wait of the next short request, less the unloaded wait.
        until_free: from the hang-up to the last first token that was late, less the unloaded wait.  If none was late,
            the wait of the next request.
        bounded: whether the server was not free when waiting was given up.
    """

    next_request: float
    until_free: float
    bounded: bool = False


async def measure_unloaded(turn: Measurement, probes: int = 5) -> Unloaded:
    """Measure short requests to a server in the state that later measurements are compared with."""
    seconds = [(await turn.client.send(turn.short())).ttft for _ in range(probes)]
    return Unloaded(statistics.median(seconds), max(seconds))


async def measure_freed(turn: Measurement, unloaded: Unloaded, since: float) -> Freed:
    """Send short requests one by one until they are as quick as `unloaded`; `since` is the time of the hang-up."""
    waits: list[float] = []
    until_free, quick = 0.0, 0
    while quick < QUICK_PROBES:
        probe = await turn.client.send(turn.short())
        waits.append(probe.ttft - unloaded.median)
        if unloaded.is_quick(probe.ttft):
            quick += 1
        else:
            quick, until_free = 0, probe.arrivals[0][0] - since - unloaded.median
        if trio.current_time() - since > turn.limit:
            return Freed(waits[0], trio.current_time() - since, bounded=True)
    return Freed(waits[0], until_free or waits[0])


# --- other traffic --------------------------------------------------------------------------------------------------


class Traffic:
    """Streams that decode one response after the other.

    Args:
        streams: their number.
    """

    def __init__(self, streams: int) -> None:
        self._traces = [[Trace()] for _ in range(streams)]

    def gaps(self, since: float = float("-inf"), until: float = float("inf")) -> list[float]:
        """Return the seconds between arrivals of all streams, response by response; see `Trace.gaps`."""
        return [gap for stream in self._traces for trace in stream for gap in trace.gaps(since, until)]

    def pauses(self, since: float, until: float) -> list[float]:
        """Return when those gaps ended that hold all of the time from `since` to `until`."""
        gaps = (gap for stream in self._traces for trace in stream for gap in pairwise(at for at, _ in trace.arrivals))
        return [after for before, after in gaps if before <= since and after >= until]

    def tokens(self, since: float, until: float) -> int:
        """Return how many tokens came from `since` to `until`."""
        arrivals = (one for stream in self._traces for trace in stream for one in trace.arrivals)
        return sum(count for at, count in arrivals if since <= at < until)

    async def wait_tokens(self, count: int) -> None:
        """Wait until each stream's response has `count` tokens.  Raises RequestFailed if one ends before."""
        for traces in self._traces:
            if not await traces[-1].wait_tokens(count):
                raise RequestFailed("a stream ended before it had begun")

    def begin(self, nursery: trio.Nursery, turn: Measurement, spec: Callable[[], RequestSpec]) -> None:
        """Start every stream, each with what `spec` returns, again and again."""
        for traces in self._traces:
            nursery.start_soon(_keep_streaming, turn.client, spec(), traces)


async def _keep_streaming(client: Client, spec: RequestSpec, traces: list[Trace]) -> None:
    while True:
        await client.send(spec, traces[-1])
        traces.append(Trace())


@asynccontextmanager
async def open_traffic(
    turn: Measurement, streams: int, tokens: int, prompt: int = PROBE_TOKENS, fields: Mapping[str, Any] | None = None
) -> AsyncIterator[Traffic]:
    """Let streams decode while the scope lasts.  They hang up at its end.

    Args:
        turn: whose server they ask.
        streams: their number.
        tokens: of each of their responses.
        prompt: tokens of each one's prompt, which is the same for all of its responses.
        fields: added to their bodies.
    """
    traffic = Traffic(streams)
    async with trio.open_nursery() as nursery:
        traffic.begin(nursery, turn, lambda: RequestSpec(turn.prompts.make(prompt), tokens, fields=fields or {}))
        await traffic.wait_tokens(2)
        yield traffic
        nursery.cancel_scope.cancel()


def p50_p99(values: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile.  Raises RequestFailed if there are no values."""
    if not values:
        raise RequestFailed("no tokens came in the time that was to be measured")
    return percentile(values, 50), percentile(values, 99)
