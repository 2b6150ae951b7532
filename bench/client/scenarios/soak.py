"""A long run of mixed requests and hang-ups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure, percentile
from bench.client.harness.trace import RequestFailed, Trace
from bench.client.harness.turn import send_all, size

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement


@dataclass
class Seen:
    """The observations of all clients so far.

    Attributes:
        tokens: of all responses.
        hang_ups: requests that were hung up on.
        failures: messages of requests that failed.
        waits: for each response, when its first token came, and the wait for it.
        agreeing: responses to the repeated prompt that are the same as the first.
        compared: all responses to the repeated prompt after the first.
    """

    tokens: int = 0
    hang_ups: int = 0
    failures: list[str] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    agreeing: int = 0
    compared: int = 0


@dataclass(frozen=True)
class Soak:
    """Clients that send requests, hang up and retry without a pause, for a long time.

    Does anything fail, or slow down?  One prompt is sent again and again beside the others: does its greedy response
    stay the same?  (In half precision batches differ in the last bit, so a few responses may differ there.)
    """

    name: ClassVar[str] = "soak"

    seconds: float = size(600.0, "How long.")
    clients: int = size(6, "Clients at a time.")
    longest: int = size(1024, "Tokens of the longest prompt.")
    tokens: int = size(64, "Tokens of the longest response.")
    patience: float = size(3.0, "Seconds after which the last of those that hang up has done so.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return rates, failures, and the last quarter against the first."""
        seen = Seen()
        canary = RequestSpec(turn.prompts.make(32), self.tokens)
        (answer,) = await send_all(turn.client, [canary])
        began = trio.current_time()
        with trio.move_on_after(self.seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, turn, canary, answer.text, seen)
                for _ in range(self.clients):
                    nursery.start_soon(self._live, turn, seen)
        if not seen.waits:
            raise RequestFailed("no response came; take more --seconds")
        return self._figures(seen, began)

    async def _watch(self, turn: Measurement, canary: RequestSpec, answer: str, seen: Seen) -> None:
        while True:
            trace = await self._try(turn, canary, seen)
            if trace.ended is not None:
                seen.compared += 1
                seen.agreeing += trace.text == answer

    async def _live(self, turn: Measurement, seen: Seen) -> None:
        """Be one client: send requests of random size, hang up on a third of them, and retry half of those."""
        while True:
            turn.note(f"{len(seen.waits)} responses, {seen.hang_ups} hang-ups, {len(seen.failures)} failures")
            tokens = turn.rng.randint(1, self.tokens)
            spec = RequestSpec(
                turn.prompts.make(turn.rng.randint(1, self.longest)), tokens, stream=turn.rng.random() < 0.8
            )
            if turn.rng.random() < 1 / 3:
                await self._try(turn, spec, seen, after=turn.rng.uniform(0, self.patience))
                if turn.rng.random() < 1 / 2:
                    continue
            await self._try(turn, spec, seen)

    async def _try(self, turn: Measurement, spec: RequestSpec, seen: Seen, after: float = float("inf")) -> Trace:
        try:
            trace = await hang_up(turn.client, spec, after=after)
        except RequestFailed as error:
            seen.failures.append(str(error))
            await trio.sleep(0.1)  # a server that refuses at once is not to be flooded
            return Trace()
        seen.tokens += trace.tokens
        if trace.ended is None:
            seen.hang_ups += 1
        elif trace.arrivals:
            seen.waits.append((trace.arrivals[0][0], trace.ttft))
        return trace

    def _figures(self, seen: Seen, began: float) -> list[Figure]:
        early = [wait for at, wait in seen.waits if at < began + self.seconds / 4]
        late = [wait for at, wait in seen.waits if at >= began + self.seconds * 3 / 4]
        figures = [
            Figure("responses", len(seen.waits), "", Better.NEITHER),
            Figure("hang-ups", seen.hang_ups, "", Better.NEITHER),
            Figure("failures", len(seen.failures), "", Better.LOWER),
            Figure("throughput", seen.tokens / self.seconds, "tokens/s", Better.HIGHER),
        ]
        if early and late:
            slower = percentile(late, 50) / percentile(early, 50)
            figures.append(Figure("time to first token, last quarter over first", slower, "", Better.LOWER))
        if seen.compared:
            figures.append(Figure("same greedy answer", seen.agreeing / seen.compared, "", Better.HIGHER))
        return figures
