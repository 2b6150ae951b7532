"""A client with less patience than its prompt takes, which comes again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.client.harness.client import hang_up
from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.turn import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.harness.trace import Trace
    from bench.client.harness.turn import Measurement

ROOM = 0.9
"""The share of a model's context that a prompt may take."""


@dataclass(frozen=True)
class Impatience:
    """Hang up on a long prompt and send it again at once, several times, and then wait: is it ever read?

    This is what an agent with a short timeout does.  Where a prefill runs on after its client has gone, and the retry
    begins from the start, each attempt makes the next one slower.  A server whose receipts tell how much of the prompt
    each attempt found gets a figure for each.
    """

    name: ClassVar[str] = "impatience"

    prompt: int = size(50_000, "Tokens of the prompt; at most nine tenths of the context that the server tells.")
    attempts: int = size(4, "How often the client hangs up.")
    patience: float = size(0.25, "When it does: after this share of the time that such a prompt takes.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return what each attempt found, and the time of the one that waits."""
        length = await self._length(turn)
        turn.note("the whole prompt")
        whole = (await turn.client.send(RequestSpec(turn.prompts.make(length), 1))).ttft
        spec = RequestSpec(turn.prompts.make(length), 1)
        hung_up: list[Trace] = []
        while len(hung_up) < self.attempts:
            turn.note(f"attempt {len(hung_up) + 1} of {self.attempts}")
            trace = await hang_up(turn.client, spec, after=whole * self.patience)
            if trace.tokens:  # it was read within the client's patience
                return [*await self._left(turn, hung_up, length), _attempts(len(hung_up) + 1)]
            hung_up.append(trace)
        turn.note("the attempt that waits")
        last = await turn.client.send(spec)
        figures = await self._left(turn, hung_up, length)
        if last.cached_tokens is not None:
            figures.append(_left_to_read(length - last.cached_tokens, len(hung_up) + 1))
        waited = Figure("of the time of the whole prompt", last.ttft / whole, "", Better.LOWER, "at last")
        return [*figures, _attempts(len(hung_up) + 1), waited]

    async def _left(self, turn: Measurement, hung_up: Sequence[Trace], length: int) -> list[Figure]:
        """Return what each attempt had to read, by receipts that are there once a later one has ended."""
        receipts = [await turn.client.receipt(trace) for trace in hung_up]
        return [
            _left_to_read(length - receipt["cached_tokens"], number)
            for number, receipt in enumerate(receipts, start=1)
            if receipt is not None
        ]

    async def _length(self, turn: Measurement) -> int:
        """Return the tokens of the prompt: fewer where the server says that its context is too small."""
        models = (await turn.client.get("/v1/models") or {}).get("data") or [{}]
        context = models[0].get("max_model_len") or (models[0].get("meta") or {}).get("n_ctx")
        return self.prompt if context is None else min(self.prompt, int(ROOM * context))


def _left_to_read(tokens: float, attempt: int) -> Figure:
    return Figure("left to read", tokens, "tokens", Better.LOWER, f"attempt {attempt}", x=attempt)


def _attempts(number: int) -> Figure:
    return Figure("attempts", number, "", Better.LOWER)
