"""What a scenario works with: one target's turn in one round, and the helpers that several scenarios share."""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import trio

from bench.client.harness.client import RequestFailed, RequestSpec, Trace
from bench.client.harness.figures import percentile

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Iterable

    from bench.client.harness.client import Client
    from bench.client.harness.figures import Figure
    from bench.client.harness.prompts import PromptMaker

T = TypeVar("T")

PROBE_TOKENS = 16  # of a short request's prompt
SETTLED_PROBES = 3  # in a row as quick as on an idle server, and it counts as one


@dataclass(frozen=True, slots=True)
class Turn:
    """One target's turn.

    Attributes:
        prompts: new to the server.
        rng: draws alike for every target of a round.
        round: counted from 0.
        limit: seconds after which waiting for a server to be free again is given up.
        note: says on the terminal what is going on.
        memory: resident bytes of the server; None where we cannot look.
    """

    client: Client
    prompts: PromptMaker
    rng: random.Random
    round: int = 0
    limit: float = 120.0
    note: Callable[[str], None] = lambda _: None
    memory: Callable[[], int | None] = lambda: None

    def short(self) -> RequestSpec:
        """A short request for one token, as new to the server as any."""
        return RequestSpec(self.prompts.make(PROBE_TOKENS), max_tokens=1)


class Scenario(Protocol):
    """A benchmark: a frozen dataclass whose fields are its sizes.  Its docstring is its help."""

    name: ClassVar[str]
    __doc__: str | None

    async def measure(self, turn: Turn) -> list[Figure]:
        """One round on one target.

        Raises:
            RequestFailed: the server did not do what the scenario needs.  May come in a group.
        """


def counted(number: int, noun: str) -> str:
    """`1 stream`, `2 streams`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(default: Any, help: str) -> Any:  # noqa: ANN401  # as `dataclasses.field`
    """A scenario's field, which becomes an option of `cede bench run SCENARIO`."""
    return field(default=default, metadata={"help": help})


async def send_all(client: Client, specs: Iterable[RequestSpec]) -> list[Trace]:
    """All of them at once; returns when all have been answered."""
    pairs = [(spec, Trace()) for spec in specs]
    async with trio.open_nursery() as nursery:
        for spec, trace in pairs:
            nursery.start_soon(client.send, spec, trace)
    return [trace for _, trace in pairs]


# --- is the device free? --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A short request's seconds to first token where nothing is being wound down: the median, and the slowest."""

    median: float
    slowest: float

    def quick(self, ttft: float) -> bool:
        """Whether that is no longer than one of these, but for noise: a quarter, and 20 ms."""
        return ttft <= 1.25 * self.slowest + 0.02


@dataclass(frozen=True, slots=True)
class Freed:
    """How a server came back after a hang-up; seconds.

    Attributes:
        next_request: what the very next short request waited, less its unloaded value.
        until_free: from the hang-up to the last first token that was late, less the unloaded value: what the next
            request waited where that was the last one.
        bounded: it was not free when we gave up.
    """

    next_request: float
    until_free: float
    bounded: bool = False


async def measure_unloaded(turn: Turn, probes: int = 5) -> Unloaded:
    """Probe a server that is in the state to compare with."""
    seconds = [(await turn.client.send(turn.short())).ttft for _ in range(probes)]
    return Unloaded(statistics.median(seconds), max(seconds))


async def measure_freed(turn: Turn, unloaded: Unloaded, since: float) -> Freed:
    """Send short requests, one after the other, until they are as quick as `unloaded`; `since` is the hang-up."""
    waits: list[float] = []
    until_free, quick = 0.0, 0
    while quick < SETTLED_PROBES:
        probe = await turn.client.send(turn.short())
        waits.append(probe.ttft - unloaded.median)
        if unloaded.quick(probe.ttft):
            quick += 1
        else:
            quick, until_free = 0, probe.arrivals[0][0] - since - unloaded.median
        if trio.current_time() - since > turn.limit:
            return Freed(waits[0], trio.current_time() - since, bounded=True)
    return Freed(waits[0], until_free or waits[0])


# --- other traffic --------------------------------------------------------------------------------------------------


class Traffic:
    """Streams that decode, one response after the other."""

    def __init__(self, streams: int) -> None:
        self._traces = [[Trace()] for _ in range(streams)]

    def gaps(self, since: float = float("-inf"), until: float = float("inf")) -> list[float]:
        """Seconds between the arrivals of each response, of all streams; see `Trace.gaps`."""
        return [gap for stream in self._traces for trace in stream for gap in trace.gaps(since, until)]

    async def wait_tokens(self, count: int) -> None:
        """Wait until the response that each stream is reading has `count` tokens.  Raises RequestFailed."""
        for traces in self._traces:
            if not await traces[-1].wait_tokens(count):
                raise RequestFailed("a stream ended before it had begun")

    def begin(self, nursery: trio.Nursery, turn: Turn, tokens: int) -> None:
        """Start every stream, with responses of `tokens` tokens."""
        for traces in self._traces:
            nursery.start_soon(
                _keep_streaming, turn.client, RequestSpec(turn.prompts.make(PROBE_TOKENS), tokens), traces
            )


async def _keep_streaming(client: Client, spec: RequestSpec, traces: list[Trace]) -> None:
    while True:
        await client.send(spec, traces[-1])
        traces.append(Trace())


@asynccontextmanager
async def open_traffic(turn: Turn, streams: int, tokens: int) -> AsyncIterator[Traffic]:
    """Streams that decode while the scope lasts, in responses of `tokens` tokens; they hang up at its end."""
    traffic = Traffic(streams)
    async with trio.open_nursery() as nursery:
        traffic.begin(nursery, turn, tokens)
        await traffic.wait_tokens(2)
        yield traffic
        nursery.cancel_scope.cancel()


def p50_p99(values: list[float]) -> tuple[float, float]:
    """Both percentiles.  Raises RequestFailed where nothing came."""
    if not values:
        raise RequestFailed("no tokens came in the time that was to be measured")
    return percentile(values, 50), percentile(values, 99)
