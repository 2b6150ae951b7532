"""Prompts that a server has read before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import size

if TYPE_CHECKING:
    from bench.client.harness.prompts import Prompt
    from bench.client.harness.turn import Measurement


@dataclass(frozen=True)
class Cache:
    """Seconds to the first token of a prompt that is new, is sent again, is continued, or returns after others."""

    name: ClassVar[str] = "cache"

    prompt: int = size(2048, "Tokens of the prompt.")
    suffix: int = size(64, "Tokens by which it is continued.")
    others: int = size(8, "Prompts, as long, that come in between: more than the server has slots.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return time to first token and cached tokens of each of the four prompts."""
        prompt = turn.prompts.make(self.prompt)
        figures = await self._once(turn, prompt, "new")
        figures += await self._once(turn, prompt, "again")
        figures += await self._once(turn, turn.prompts.extend(prompt, self.suffix), "continued")
        for number in range(self.others):
            turn.note(f"another prompt, {number + 1} of {self.others}")
            await turn.client.send(RequestSpec(turn.prompts.make(self.prompt), 1))
        return figures + await self._once(turn, prompt, f"after {self.others} others")

    async def _once(self, turn: Measurement, prompt: Prompt, case: str) -> list[Figure]:
        turn.note(case)
        trace = await turn.client.send(RequestSpec(prompt, 1))
        figures = [Figure("time to first token", trace.ttft, "s", Better.LOWER, case)]
        if trace.cached_tokens is not None:
            figures.append(Figure("cached", trace.cached_tokens, "tokens", Better.HIGHER, case))
        return figures
