"""Cost of drawing tokens at random instead of taking the likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import send_all, size
from runtime.common.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench.client.harness.turn import Measurement

UNFILTERED = {"top_k": 0, "top_p": 1, "min_p": 0}


@dataclass(frozen=True)
class Sampling:
    """Tokens per second where the likeliest token is taken, where one is drawn of all, and of those that filters leave.

    The time of each stream is that from its first token to its last.  All is asked for without speculation.
    """

    name: ClassVar[str] = "sampling"

    streams: tuple[int, ...] = size((1, 4), "Streams at a time.")
    prompt: int = size(16, "Tokens of each prompt.")
    tokens: int = size(128, "Tokens of each response.")
    temperature: float = size(0.8, "Of all but the greedy ones.")
    top_k: int = size(40, "Of those that are filtered.")
    top_p: float = size(0.95, "Of those that are filtered.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures for each number of streams."""
        figures = []
        for streams in self.streams:
            rates = {}
            for name, fields in self._turned(turn.round):
                turn.note(f"{counted(streams, 'stream')}, {name}")
                rates[name] = await self._together(turn, streams, fields)
            case = counted(streams, "stream")
            figures += [
                Figure(name, rates[name], "tokens/s", Better.HIGHER, case, x=streams) for name in self._fields()
            ]
            figures += [
                Figure(f"{name} / greedy", rates[name] / rates["greedy"], "", Better.HIGHER, case, x=streams)
                for name in self._fields()
                if name != "greedy"
            ]
        return figures

    def _fields(self) -> dict[str, dict[str, Any]]:
        """Return the fields of each way to pick a token."""
        filters = {"top_k": self.top_k, "top_p": self.top_p, "min_p": 0}
        return {
            "greedy": {"temperature": 0},
            "unfiltered": {"temperature": self.temperature} | UNFILTERED,
            "filtered": {"temperature": self.temperature} | filters,
        }

    def _turned(self, by: int) -> list[tuple[str, dict[str, Any]]]:
        """Return them in another order each round, so that none is always the first."""
        ways = list(self._fields().items())
        by %= len(ways)
        return ways[by:] + ways[:by]

    async def _together(self, turn: Measurement, streams: int, fields: Mapping[str, Any]) -> float:
        """Return the tokens per second of all streams, each from its first token to its last."""
        own = dict(turn.client.dialect.without_speculation) | dict(fields)
        specs = [RequestSpec(turn.prompts.make(self.prompt), self.tokens, fields=own) for _ in range(streams)]
        return sum(trace.decode_rate for trace in await send_all(turn.client, specs))
