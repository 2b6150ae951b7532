"""The effect of clients that leave on those that stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.trace import RequestFailed, Trace
from bench.client.harness.turn import open_traffic, p50_p99, size

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement

ABANDONED_TOKENS = 16
"""Tokens of responses whose client hangs up."""


@dataclass(frozen=True)
class Cascade:
    """Every slot decodes while clients in the queue hang up: does each response come whole, and evenly?

    Start the targets with as many slots as --streams, so that the others have to wait.
    """

    name: ClassVar[str] = "cascade"

    streams: int = size(4, "Streams that decode: one for each of the server's slots.")
    tokens: int = size(256, "Tokens of each of their responses.")
    queued: int = size(16, "Clients that come while they decode.")
    patience: float = size(0.5, "Seconds after which the last of them has gone.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return how many responses came whole, and the gaps between tokens before and while the others leave."""
        turn.note("decoding")
        traces = [Trace() for _ in range(self.streams)]
        specs = [RequestSpec(turn.prompts.make(16), self.tokens) for _ in traces]
        async with trio.open_nursery() as nursery:
            for spec, trace in zip(specs, traces, strict=True):
                nursery.start_soon(_send_or_fail, turn, spec, trace)
            for trace in traces:
                await trace.wait_tokens(self.tokens // 4)
            began = trio.current_time()
            turn.note("the queue leaves")
            await self._come_and_go(turn)
            ended = trio.current_time()
        whole = sum(trace.ended is not None and trace.tokens == self.tokens for trace in traces) / self.streams
        alone = [gap for trace in traces for gap in trace.gaps(until=began)]
        beside = [gap for trace in traces for gap in trace.gaps(began, ended)]
        return [Figure("responses that came whole", whole, "", Better.HIGHER), *_gap_figures(beside, alone, "leaving")]

    async def _come_and_go(self, turn: Measurement) -> None:
        moments = [turn.rng.uniform(0, self.patience) for _ in range(self.queued)]
        async with trio.open_nursery() as leaving:
            for moment in moments:
                leaving.start_soon(_leave, turn, RequestSpec(turn.prompts.make(16), ABANDONED_TOKENS), moment)


@dataclass(frozen=True)
class Neighbours:
    """The gaps between tokens of three streams: alone, beside a long prefill, and beside 50 cancels a second."""

    name: ClassVar[str] = "neighbours"

    streams: int = size(3, "Streams that decode.")
    prompt: int = size(2048, "Tokens of the long prompt.")
    cancels: float = size(50.0, "Requests a second that come and hang up.")
    hold: float = size(0.04, "Seconds after which the last of these has hung up.")
    seconds: float = size(5.0, "How long to watch the streams alone, and beside the cancels.")
    traffic_tokens: int = size(512, "Tokens of each of the streams' responses.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return median, 99th percentile and its ratio to the median alone, for each of the three."""
        async with open_traffic(turn, self.streams, self.traffic_tokens) as traffic:
            began = trio.current_time()
            turn.note("alone")
            await trio.sleep(self.seconds)
            alone_until = trio.current_time()
            turn.note("beside a prefill")
            read = await turn.client.send(RequestSpec(turn.prompts.make(self.prompt), 1))
            turn.note("beside cancels")
            storm_began = trio.current_time()
            await self._storm(turn)
            storm_ended = trio.current_time()
        alone = traffic.gaps(began, alone_until)
        beside_prefill = traffic.gaps(read.started, read.arrivals[0][0])
        return [
            *_gap_figures(alone, alone, "alone"),
            *_gap_figures(beside_prefill, alone, "beside a prefill"),
            *_gap_figures(traffic.gaps(storm_began, storm_ended), alone, "beside cancels"),
            Figure("the long prompt's time to first token", read.ttft, "s", Better.LOWER),
        ]

    async def _storm(self, turn: Measurement) -> None:
        """Send requests at an even pace, whatever becomes of them."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(round(self.seconds * self.cancels)):
                await trio.sleep_until(began + number / self.cancels)
                spec = RequestSpec(turn.prompts.make(16), ABANDONED_TOKENS)
                nursery.start_soon(_leave, turn, spec, turn.rng.uniform(0, self.hold))


async def _send_or_fail(turn: Measurement, spec: RequestSpec, trace: Trace) -> None:
    """Send a request.  A failure shows in the trace, which then has no end, and is counted there."""
    try:
        await turn.client.send(spec, trace)
    except RequestFailed as error:
        turn.note(f"a stream broke off: {error}")


async def _leave(turn: Measurement, spec: RequestSpec, after: float) -> None:
    """Send a request and hang up.  A refusal (a full queue) is no failure here."""
    try:
        await hang_up(turn.client, spec, after=after)
    except RequestFailed as error:
        turn.note(f"refused: {error}")


def _gap_figures(gaps: list[float], alone: list[float], case: str) -> list[Figure]:
    median, late = p50_p99(gaps)
    usual, _ = p50_p99(alone)
    return [
        Figure("gap between tokens, median", median * 1e3, "ms", Better.LOWER, case),
        Figure("gap between tokens, p99", late * 1e3, "ms", Better.LOWER, case),
        Figure("p99 over the median alone", late / usual, "", Better.LOWER, case),
    ]
