"""An editor that asks anew with each keystroke, and wants the last answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import trio

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Figure
from bench.client.harness.trace import Trace
from bench.client.harness.turn import size

if TYPE_CHECKING:
    from bench.client.harness.turn import Measurement

LOOKS = 0.05
"""Seconds between two looks at the slots."""


@dataclass
class _Series:
    """Results of the keystrokes so far, in order, and the most slots that were seen in use."""

    traces: list[Trace] = field(default_factory=list)
    scopes: list[trio.CancelScope] = field(default_factory=list)
    most: int | None = None


@dataclass(frozen=True)
class Autocomplete:
    """Ask for a completion with each keystroke: what do the superseded ones cost, and when is the last one there?

    On a server that knows `cede.supersede` the client never hangs up: the next request ends the one before.  On any
    other the client hangs up on the one before, as editors do.
    """

    name: ClassVar[str] = "autocomplete"

    prompt: int = size(500, "Tokens of the text before the first keystroke.")
    rate: float = size(20.0, "Keystrokes a second, each of which adds a token.")
    seconds: float = size(10.0, "For how long.")
    tokens: int = size(64, "Tokens of a completion.")
    chunk: int = size(0, "Prompt tokens of a step, where that is known: what one wastes is told in these, too.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return what the series cost, and how long its last answer took."""
        strokes = max(1, round(self.rate * self.seconds))
        text = turn.prompts.make(self.prompt + strokes)
        supersedes = await turn.client.get("/v1/groups") is not None
        series = _Series()
        turn.note(f"{strokes} keystrokes")
        async with trio.open_nursery() as nursery:
            looking = await nursery.start(_look_at_slots, turn, series)
            started = trio.current_time()
            async with trio.open_nursery() as requests:
                for number in range(strokes):
                    await trio.sleep_until(started + number / self.rate)
                    if series.scopes and not supersedes:
                        series.scopes[-1].cancel()
                    series.traces.append(Trace())
                    series.scopes.append(trio.CancelScope())
                    spec = self._spec(text, number)
                    requests.start_soon(_send, turn, spec, series.traces[-1], series.scopes[-1])
            looking.cancel()
        return await self._figures(turn, series)

    def _spec(self, text: Any, number: int) -> RequestSpec:  # noqa: ANN401  a Prompt: text, or token ids
        typed = (
            " ".join(text.split()[: self.prompt + number]) if isinstance(text, str) else text[: self.prompt + number]
        )
        return RequestSpec(typed, self.tokens, fields={"cede": {"supersede": "autocomplete"}}, may_be_cut=True)

    async def _figures(self, turn: Measurement, series: _Series) -> list[Figure]:
        last = series.traces[-1]
        *others, newest = [trace.ended is not None and trace.tokens == self.tokens for trace in series.traces]
        figures = [
            Figure("answered in full", int(newest), "", Better.HIGHER, "the newest"),
            Figure("answered in full", sum(others), "", Better.LOWER, "others"),
            Figure("first token of the last", last.ttft, "s", Better.LOWER),
            Figure("last token of the last", (last.ended or last.closed[0]) - last.started, "s", Better.LOWER),
        ]
        if series.most is not None:
            figures.append(Figure("slots in use at most", series.most, "", Better.LOWER))
        found = (await turn.client.get("/v1/receipts", limit=1000) or {}).get("data", [])
        ids = {trace.request_id for trace in series.traces if trace.request_id is not None}
        ours = [receipt for receipt in found if receipt["request_id"] in ids]
        wasted = [receipt["wasted_tokens"] for receipt in ours if "wasted_tokens" in receipt]
        if wasted:
            figures.append(Figure("wasted by one that was superseded", max(wasted), "tokens", Better.LOWER, "at most"))
            if self.chunk:
                chunks = max(wasted) / self.chunk
                figures.append(Figure("wasted by one that was superseded", chunks, "chunks", Better.LOWER, "in chunks"))
            figures.append(Figure("wasted by all", sum(wasted), "tokens", Better.LOWER))
        return figures


async def _send(turn: Measurement, spec: RequestSpec, trace: Trace, scope: trio.CancelScope) -> None:
    with scope:
        await turn.client.send(spec, trace)


async def _look_at_slots(
    turn: Measurement, series: _Series, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    """Count the slots that are in use, now and then, if the server tells of them."""
    with trio.CancelScope() as scope:
        task_status.started(scope)
        while (found := await turn.client.get("/slots")) is not None:
            slots = found["slots"] if isinstance(found, dict) else found
            busy = sum(bool(slot.get("is_processing", slot.get("state", "idle") != "idle")) for slot in slots)
            series.most = max(series.most or 0, busy)
            await trio.sleep(LOOKS)
