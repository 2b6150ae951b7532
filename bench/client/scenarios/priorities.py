"""An interactive client beside generations that fill the machine."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.trace import RequestFailed, Trace
from bench.client.harness.turn import open_traffic, p50_p99, size

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement, Traffic

FIRST, LAST = -10, 10
"""`priority` of the interactive client and of the others: the lower goes first, as in vLLM."""

ALLOWED = 1.5
"""A first token may take so many times what it takes on an idle server, and a step more."""


@dataclass
class _Beside:
    """Results of the interactive requests, and when the first was sent and the last had ended."""

    began: float
    ended: float = 0.0
    traces: list[Trace] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class _Idle:
    """Seconds that an idle server takes: to the first token, for the whole response, and to read the others' prompt."""

    ttft: float
    whole: float
    reading: float


@dataclass(frozen=True)
class Priorities:
    """A client comes again and again while others generate in every slot: how long does it wait, and who pays?

    It says `priority` -10, the others 10.  A server without priorities does not know the field, and is asked all the
    same.  Start the targets with as many slots as --streams.

    A first token "over what is allowed" took longer than 1.5 times that of an idle server and one step of the others
    where the figure is above 1.  What the others lose is told beside the share of the time for which the client's
    requests keep an idle server busy.  "Set aside and back" are the seconds that a stream which had to make room was
    kept from its tokens by that alone, as clients see it: the client's wait beyond that of an idle server, and the
    time from its last token to the stream's next one.
    """

    name: ClassVar[str] = "priorities"

    streams: int = size(8, "Streams that generate: one for each of the server's slots.")
    depth: int = size(2048, "Tokens of each of their prompts.")
    background: int = size(512, "Tokens of each of their responses, one after the other.")
    prompt: int = size(512, "Tokens of the interactive client's prompts.")
    tokens: int = size(16, "Tokens of its responses.")
    every: float = size(5.0, "Seconds from one of its requests to the next.")
    requests: int = size(6, "How many it sends beside the others.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return the client's waits, what the others lose, and what it takes to make room."""
        idle = await self._measure_idle(turn)
        turn.note("the others begin")
        async with open_traffic(turn, self.streams, self.background, self.depth, {"priority": LAST}) as others:
            half = self.every * self.requests / 2  # before and after, since a machine's speed drifts
            before = await _watch(turn, half)
            beside = await self._come_again(turn)
            after = await _watch(turn, half)
        alone = (others.tokens(*before) + others.tokens(*after)) / (2 * half)
        step, _ = p50_p99(others.gaps(*before) + others.gaps(*after))
        return [
            *_waits(turn, beside, idle, step),
            *_losses(others, beside, idle, alone),
            *_making_room(others, beside, idle),
        ]

    def _spec(self, turn: Measurement) -> RequestSpec:
        return RequestSpec(turn.prompts.make(self.prompt), self.tokens, fields={"priority": FIRST})

    async def _measure_idle(self, turn: Measurement) -> _Idle:
        turn.note("idle")
        traces = [await turn.client.send(self._spec(turn)) for _ in range(self.requests)]
        read = await turn.client.send(RequestSpec(turn.prompts.make(self.depth), 1))
        return _Idle(
            ttft=statistics.median(trace.ttft for trace in traces),
            whole=statistics.median(_seconds(trace) for trace in traces),
            reading=read.ttft,
        )

    async def _come_again(self, turn: Measurement) -> _Beside:
        """Send the client's requests at an even pace, whatever becomes of them, and wait for the last one's end."""
        beside = _Beside(began=trio.current_time())
        async with trio.open_nursery() as nursery:
            for number in range(self.requests):
                await trio.sleep_until(beside.began + number * self.every)
                turn.note(f"request {number + 1} of {self.requests}")
                beside.traces.append(Trace())
                nursery.start_soon(_send, turn, self._spec(turn), beside.traces[-1])
            await trio.sleep_until(beside.began + self.requests * self.every)
        beside.ended = trio.current_time()
        return beside


async def _watch(turn: Measurement, seconds: float) -> tuple[float, float]:
    """Leave the streams alone for so long, and return from when to when that was."""
    turn.note("the others alone")
    began = trio.current_time()
    await trio.sleep(seconds)
    return began, trio.current_time()


async def _send(turn: Measurement, spec: RequestSpec, trace: Trace) -> None:
    """Send a request and wait for its end, but no longer than the turn's limit."""
    with trio.move_on_after(turn.limit):
        await turn.client.send(spec, trace)


def _seconds(trace: Trace) -> float:
    assert trace.ended is not None
    return trace.ended - trace.started


def _waits(turn: Measurement, beside: _Beside, idle: _Idle, step: float) -> list[Figure]:
    """The client's times to the first token: one that never came is as long as it was waited for."""
    waits = [trace.ttft if trace.arrivals else turn.limit for trace in beside.traces]
    bounded = not all(trace.arrivals for trace in beside.traces)
    allowed = ALLOWED * idle.ttft + step
    figures = [
        Figure("time to first token", idle.ttft, "s", Better.LOWER, "idle"),
        Figure("gap between the others' tokens, median", step * 1e3, "ms", Better.LOWER, "alone"),
    ]
    for case, wait in (("median", statistics.median(waits)), ("at most", max(waits))):
        figures += [
            Figure("time to first token", wait, "s", Better.LOWER, case, bounded=bounded),
            Figure("first token over what is allowed", wait / allowed, "", Better.LOWER, case, bounded=bounded),
        ]
    return figures


def _losses(others: Traffic, beside: _Beside, idle: _Idle, alone: float) -> list[Figure]:
    """Return what the others lose, and for which share of the time the client's requests keep an idle server busy."""
    rate = others.tokens(beside.began, beside.ended) / beside.seconds
    if not alone:
        raise RequestFailed("the others had no tokens in the time that was to be measured")
    lost = 1 - rate / alone
    cost = len(beside.traces) * idle.whole / beside.seconds
    return [
        Figure("the others", alone, "tokens/s", Better.HIGHER, "alone"),
        Figure("the others", rate, "tokens/s", Better.HIGHER, "beside the client"),
        Figure("the others lose", 100 * lost, "%", Better.LOWER),
        Figure("the client's requests take", 100 * cost, "%", Better.NEITHER),
        Figure("lost over taken", lost / cost, "", Better.LOWER),
    ]


def _making_room(others: Traffic, beside: _Beside, idle: _Idle) -> list[Figure]:
    """Return what it took to set streams aside and back, if any was: its gap holds the client's response."""
    there = [trace for trace in beside.traces if len(trace.arrivals) > 2]  # fewer, and any gap might hold them
    took = [
        max(trace.ttft - idle.ttft, 0.0) + gap_ended - trace.arrivals[-1][0]
        for trace in there
        for gap_ended in others.pauses(trace.arrivals[0][0], trace.arrivals[-1][0])
    ]
    figures = [Figure("reading the others' prompt", idle.reading, "s", Better.LOWER, "idle")]
    if took:
        figures += [
            Figure("set aside and back", statistics.median(took), "s", Better.LOWER),
            Figure("set aside and back over reading", statistics.median(took) / idle.reading, "", Better.LOWER),
        ]
    return [*figures, Figure("streams set aside", len(took), "", Better.NEITHER)]
