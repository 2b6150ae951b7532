"""Mixed traffic: clients come at random, and half of them do not wait for the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure, percentile
from bench.client.harness.trace import RequestFailed, Trace
from bench.client.harness.turn import size

if TYPE_CHECKING:
    import random

    from bench.client.harness.turn import Measurement


@dataclass(frozen=True, slots=True)
class Visit:
    """One client.

    Attributes:
        at: seconds from the start until it comes.
        prompt: tokens of its prompt.
        leaves_after: seconds from then until it hangs up; None for a client that stays.
        returns_after: seconds from then until it comes back, with one more token, and stays; None for a client that
            does not come back.
        stream: whether a client that hangs up reads a stream.  A client that stays always does.
    """

    at: float
    prompt: int
    leaves_after: float | None = None
    returns_after: float | None = None
    stream: bool = True


@dataclass
class Outcome:
    """The outcome of all visits.

    Attributes:
        stayed: a trace for each client that stayed, or came back to stay.
        refused: requests that failed.
    """

    stayed: list[Trace] = field(default_factory=list)
    refused: int = 0


@dataclass(frozen=True)
class Goodput:
    """Poisson arrivals with long prompts, of which half hang up at a random moment and some of these come back.

    Useful tokens are those of responses that came whole; they are divided by the time from the first arrival until
    the last client has been served or has gone, or waiting is given up.  The arrivals are the same for every target
    of a round.
    """

    name: ClassVar[str] = "goodput"

    rate: float = size(0.5, "Clients that come per second.")
    seconds: float = size(60.0, "For how long they come.")
    shortest: int = size(512, "Tokens of the shortest prompt.")
    longest: int = size(2048, "Tokens of the longest prompt.")
    tokens: int = size(32, "Tokens of a response.")
    leaving: float = size(0.5, "Share of the clients that hang up.")
    patience: float = size(8.0, "Seconds after which the last of these has hung up.")
    streaming: float = size(0.5, "Share of these that read a stream; the others wait for the whole response.")
    returning: float = size(0.5, "Share of these that come back.")
    pause: float = size(0.5, "Seconds until they do.")
    drain: float = size(120.0, "Seconds to wait for the rest after the last arrival.")

    def visits(self, rng: random.Random) -> list[Visit]:
        """Draw the clients of a round, in the order in which they come."""
        drawn, at = [], rng.expovariate(self.rate)
        while at < self.seconds:
            leaves = rng.uniform(0, self.patience) if rng.random() < self.leaving else None
            returns = self.pause if leaves is not None and rng.random() < self.returning else None
            stream = leaves is None or rng.random() < self.streaming
            drawn.append(Visit(at, rng.randint(self.shortest, self.longest), leaves, returns, stream))
            at += rng.expovariate(self.rate)
        return drawn

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return useful tokens per second, the share of clients that stayed and were served, and their waits."""
        visits, outcome = self.visits(turn.rng), Outcome()
        if not visits:
            raise RequestFailed("nobody came: take a higher --rate or more --seconds")
        began = trio.current_time()
        with trio.move_on_after(self.seconds + self.drain):
            async with trio.open_nursery() as nursery:
                for number, visit in enumerate(visits):
                    await trio.sleep_until(began + visit.at)
                    turn.note(f"client {number + 1} of {len(visits)}")
                    nursery.start_soon(self._visit, turn, visit, outcome)
        return self._figures(visits, outcome, trio.current_time() - began - visits[0].at)

    async def _visit(self, turn: Measurement, visit: Visit, outcome: Outcome) -> None:
        spec = RequestSpec(turn.prompts.make(visit.prompt), self.tokens, stream=visit.stream)
        try:
            if visit.leaves_after is not None:
                await hang_up(turn.client, spec, after=visit.leaves_after)
                if visit.returns_after is None:
                    return
                await trio.sleep(visit.returns_after)
                spec = RequestSpec(turn.prompts.extend(spec.prompt), self.tokens)
            trace = Trace()
            outcome.stayed.append(trace)
            await turn.client.send(spec, trace)
        except RequestFailed:
            outcome.refused += 1

    def _figures(self, visits: list[Visit], outcome: Outcome, seconds: float) -> list[Figure]:
        served = [trace for trace in outcome.stayed if trace.ended is not None]
        if not served:
            raise RequestFailed(f"not one of {len(visits)} clients was served")
        useful = sum(trace.tokens for trace in served) / seconds
        waits = [trace.ttft for trace in served]
        expected = sum(visit.leaves_after is None or visit.returns_after is not None for visit in visits)
        return [
            Figure("goodput", useful, "tokens/s", Better.HIGHER),
            Figure("served, of those that stayed", len(served) / expected, "", Better.HIGHER),
            Figure("refused or broken off", outcome.refused, "requests", Better.LOWER),
            Figure("time to first token, median", percentile(waits, 50), "s", Better.LOWER),
            Figure("time to first token, p90", percentile(waits, 90), "s", Better.LOWER),
        ]
