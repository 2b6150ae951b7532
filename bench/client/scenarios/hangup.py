"""Clients that hang up: when the device is free again, and what a retry finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import check_in_prefill, measure_freed, measure_unloaded, open_traffic, size
from runtime.common.units import counted

if TYPE_CHECKING:
    from bench.client.harness.prompts import Prompt
    from bench.client.harness.trace import Trace
    from bench.client.harness.turn import Measurement, Unloaded

ABANDONED_TOKENS = 16
"""Tokens of responses whose client hangs up."""


@dataclass(frozen=True)
class Hangup:
    """Close the connection in the middle of a long prefill: how long until the device is free?

    Measured from outside: the wait of the next short request, less its wait on an idle server; and the time from the
    close until short requests, sent one after the other, are as quick as before.  Also by the server's own receipt, if
    there is one.  With streaming and without, alone and beside streams that decode.
    """

    name: ClassVar[str] = "hangup"

    prompt: int = size(6000, "Tokens of the long prompt.")
    moment: float = size(0.4, "When to hang up: this share of the time that the prompt takes alone.")
    beside: tuple[int, ...] = size((0, 1), "Streams that decode meanwhile.")
    traffic_tokens: int = size(512, "Tokens of each of their responses.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures for each combination."""
        turn.note("the whole prompt")
        whole = (await turn.client.send(RequestSpec(turn.prompts.make(self.prompt), 1))).ttft
        figures = [Figure("the prompt, uninterrupted", whole, "s", Better.LOWER)]
        for streams in self.beside:
            async with open_traffic(turn, streams, self.traffic_tokens):
                unloaded = await measure_unloaded(turn)
                for streaming in (True, False):
                    beside = f"beside {counted(streams, 'stream')}" if streams else "alone"
                    case = f"{'streaming' if streaming else 'not streaming'}, {beside}"
                    turn.note(case)
                    figures += await self._once(turn, unloaded, whole * self.moment, streaming, case)
        return figures

    async def _once(
        self, turn: Measurement, unloaded: Unloaded, after: float, streaming: bool, case: str
    ) -> list[Figure]:
        spec = RequestSpec(turn.prompts.make(self.prompt), ABANDONED_TOKENS, stream=streaming)
        trace = await hang_up(turn.client, spec, after=after)
        check_in_prefill(trace)
        freed = await measure_freed(turn, unloaded, trace.closed[0])
        figures = [
            Figure("next request's wait", freed.next_request, "s", Better.LOWER, case),
            Figure("until free", freed.until_free, "s", Better.LOWER, case, bounded=freed.bounded),
        ]
        if receipt := await turn.client.receipt(trace):
            freed_at = receipt["slot_freed_at"] or receipt["detected_at"]
            figures.append(Figure("until free, by receipt", freed_at - trace.closed[1], "s", Better.LOWER, case))
        return figures


@dataclass(frozen=True)
class Retry:
    """Hang up and send the prompt again with one more token: how much is computed again, and how long does it take?

    Once in the middle of the prefill and once in the response.  The receipt tells how far the prefill had come;
    without one, it is estimated by the share of its time that had passed.
    """

    name: ClassVar[str] = "retry"

    prompt: int = size(2048, "Tokens of the prompt.")
    moment: float = size(0.6, "When to hang up: this share of the time that the prompt takes.")
    tokens: int = size(8, "Tokens of the response to read before the second hang-up.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures for both moments."""
        turn.note("the whole prompt")
        whole = (await turn.client.send(RequestSpec(turn.prompts.make(self.prompt), 1))).ttft
        turn.note("in the prefill")
        prompt = turn.prompts.make(self.prompt)
        left = await hang_up(turn.client, RequestSpec(prompt, ABANDONED_TOKENS), after=whole * self.moment)
        check_in_prefill(left)
        estimate = self.moment * self.prompt
        figures = await self._again(turn, prompt, left, estimate, whole, "in the prefill")
        turn.note("in the response")
        prompt = turn.prompts.make(self.prompt)
        left = await hang_up(turn.client, RequestSpec(prompt, 2 * self.tokens), tokens=self.tokens)
        return figures + await self._again(turn, prompt, left, self.prompt, whole, "in the response")

    async def _again(
        self, turn: Measurement, prompt: Prompt, left: Trace, computed: float, whole: float, case: str
    ) -> list[Figure]:
        trace = await turn.client.send(RequestSpec(turn.prompts.extend(prompt), 1))
        if receipt := await turn.client.receipt(left):
            computed = min(receipt["computed_tokens"], self.prompt)
        figures = [
            Figure("retry's time to first token", trace.ttft, "s", Better.LOWER, case),
            Figure("of that of the whole prompt", trace.ttft / whole, "", Better.LOWER, case),
        ]
        if trace.cached_tokens is not None:
            again = max(0.0, computed - trace.cached_tokens)
            figures.append(Figure("computed again", again, "tokens", Better.LOWER, case))
        return figures
