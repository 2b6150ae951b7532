"""Decoding for one client, and for several at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import send_all, size
from runtime.common.units import counted

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement


@dataclass(frozen=True)
class Throughput:
    """Tokens per second of 1, 2, 4 and 8 streams together, from the first request to the last token."""

    name: ClassVar[str] = "throughput"

    streams: tuple[int, ...] = size((1, 2, 4, 8), "Streams at a time.")
    prompt: int = size(16, "Tokens of each prompt.")
    tokens: int = size(128, "Tokens of each response.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return one figure for each number of streams."""
        return [await self._together(turn, streams) for streams in self.streams]

    async def _together(self, turn: Measurement, streams: int) -> Figure:
        case = counted(streams, "stream")
        turn.note(case)
        specs = [RequestSpec(turn.prompts.make(self.prompt), self.tokens) for _ in range(streams)]
        started = trio.current_time()
        traces = await send_all(turn.client, specs)
        rate = sum(trace.tokens for trace in traces) / (trio.current_time() - started)
        return Figure("throughput", rate, "tokens/s", Better.HIGHER, case, x=streams)
