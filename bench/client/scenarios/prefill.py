"""Prefill of prompts of several lengths, and decoding after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import size

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement


@dataclass(frozen=True)
class Prefill:
    """Prompt tokens per second, and seconds to the first token, for prompts of several lengths."""

    name: ClassVar[str] = "prefill"

    lengths: tuple[int, ...] = size((512, 2048, 8192), "Tokens of the prompts.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return two figures for each length."""
        figures = []
        for length in self.lengths:
            case = f"{length} tokens"
            turn.note(case)
            trace = await turn.client.send(RequestSpec(turn.prompts.make(length), max_tokens=1))
            rate = (trace.prompt_tokens or length) / trace.ttft
            figures += [
                Figure("prefill", rate, "tokens/s", Better.HIGHER, case, x=length),
                Figure("time to first token", trace.ttft, "s", Better.LOWER, case, x=length),
            ]
        return figures


@dataclass(frozen=True)
class Depth:
    """Tokens per second of one stream after prompts of several lengths."""

    name: ClassVar[str] = "depth"

    depths: tuple[int, ...] = size((0, 1024, 4096), "Tokens that precede the response.")
    tokens: int = size(64, "Tokens of the response.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return one figure for each depth.  The time of the prompt does not count."""
        figures = []
        for depth in self.depths:
            case = f"{depth} deep"
            turn.note(case)
            trace = await turn.client.send(RequestSpec(turn.prompts.make(depth), self.tokens))
            figures.append(Figure("decode", trace.decode_rate, "tokens/s", Better.HIGHER, case, x=depth))
        return figures
