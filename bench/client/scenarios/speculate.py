"""Decoding with and without speculation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.prompts import code_prompt
from bench.client.harness.turn import send_all, size
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench.client.harness.trace import Trace
    from bench.client.harness.turn import Measurement


@dataclass(frozen=True)
class Speculate:
    """Tokens per second of code, with speculation and without, and the share of drafted tokens that was accepted.

    Each response is requested twice: as it is, and with the target's `without_speculation` fields.  The prompts are
    read before, and their time does not count.  Drafts are counted only for servers that report them in `timings`.
    """

    name: ClassVar[str] = "speculate"

    streams: tuple[int, ...] = size((1, 4), "Streams at a time.")
    tokens: int = size(128, "Tokens of each response.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures for each number of streams."""
        figures = []
        for streams in self.streams:
            case = counted(streams, "stream")
            turn.note(f"{case}, reading")
            await send_all(turn.client, [RequestSpec(prompt, 1) for prompt in _prompts(turn, streams)])
            order = [True, False] if turn.round % 2 else [False, True]
            rates, traces = {}, {}
            for speculating in order:
                turn.note(f"{case}, {'with' if speculating else 'without'}")
                fields = {} if speculating else turn.client.dialect.without_speculation
                rates[speculating], traces[speculating] = await self._together(turn, streams, fields)
            figures += [
                Figure("with speculation", rates[True], "tokens/s", Better.HIGHER, case, x=streams),
                Figure("without", rates[False], "tokens/s", Better.HIGHER, case, x=streams),
                Figure("speed-up", rates[True] / rates[False], "", Better.HIGHER, case, x=streams),
                *_acceptance(traces[True], case),
            ]
        return figures

    async def _together(self, turn: Measurement, streams: int, fields: Mapping[str, Any]) -> tuple[float, list[Trace]]:
        """Return the tokens per second of all streams, each from its first token to its last, and their traces."""
        specs = [RequestSpec(prompt, self.tokens, fields=fields) for prompt in _prompts(turn, streams)]
        traces = await send_all(turn.client, specs)
        return sum(trace.decode_rate for trace in traces), traces


def _prompts(turn: Measurement, streams: int) -> list[str]:
    return [code_prompt(100 * turn.round + number) for number in range(streams)]


def _acceptance(traces: list[Trace], case: str) -> list[Figure]:
    drafted = sum(trace.timings.get("draft_n", 0) for trace in traces)
    if not drafted:
        return []
    accepted = sum(trace.timings.get("draft_n_accepted", 0) for trace in traces)
    return [Figure("drafts accepted", accepted / drafted, "", Better.HIGHER, case)]
