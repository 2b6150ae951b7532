"""The effect of one hostile client on a neighbour."""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.attacks.catalogue import ATTACKS, ordinary
from bench.client.attacks.sending import AttackTarget
from bench.client.harness.figures import Better, Figure
from bench.client.harness.runner import leaves
from bench.client.harness.trace import RequestFailed
from bench.client.harness.turn import measure_freed, measure_unloaded, open_traffic, size

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Callable

    from bench.client.attacks.sending import Action
    from bench.client.harness.turn import Measurement

MEMORY_SECONDS = 0.05
"""Seconds between two looks at the server's memory."""

PULSE_SECONDS = 0.005
"""Seconds between two looks at how late this process is."""

SETTLE_SECONDS = 1.0
"""Seconds from the end of an attack to the last look at the server's memory."""

MAX_EXTRA_GAP = 0.05
"""Seconds that an attack may add to a neighbour's longest gap."""

MAX_GROWTH = 100 * 10**6
"""Bytes by which the server may grow in an attack."""

ALL = "all"
"""Value of `--attacks` that stands for every attack."""


@dataclass
class Impact:
    """The impact of an attack on a neighbour and on the server.

    Attributes:
        gaps: seconds between the neighbour's tokens.
        growth: bytes by which the server's memory grew at most; None if it cannot be seen.
        left: the same at the end.
        own_delay: seconds by which this process was late at most.  No gap is known better than that.
        answers: responses to the attack, counted by status.
        ended: whether the attack ended by itself, and not because its time was over.
        harm: how the neighbour's stream was broken off; empty if it was not.
    """

    gaps: list[float] = field(default_factory=list)
    growth: int | None = None
    left: int | None = None
    own_delay: float = 0.0
    answers: Counter[str] | None = None
    ended: bool = False
    harm: str = ""

    def is_within_bounds(self, step: float) -> bool:
        """Return whether the attack was withstood; `step` is the longest gap beside ordinary clients, in seconds."""
        return not self.harm and max(self.gaps) - step <= MAX_EXTRA_GAP and (self.growth or 0) <= MAX_GROWTH


@dataclass(frozen=True)
class Hostile:
    """A neighbour streams tokens, and beside it one attack after the other is carried out.

    Measured for each: the longest gap between the neighbour's tokens, over the median gap alone and beyond a step; the
    server's answers; and how its memory grew.  A step is the longest gap beside ordinary clients with long prompts.  An
    attack is withstood if it costs the neighbour at most 50 ms beyond a step, and the server at most 100 MB (where its
    memory can be seen).  A server without bounds may need several GiB: take a smaller --scale first.
    """

    name: ClassVar[str] = "hostile"

    attacks: str = size(ALL, "Names of attacks with commas between them, or all.")
    scale: float = size(1.0, "Of the attacks' sizes; at 1 the largest bodies are of 15.5 MiB.")
    tokens: int = size(3900, "Tokens of the attacks' long answers, and of the neighbour's; prompts are half of it.")
    pause: float = size(5.0, "Seconds for which a hostile reader reads nothing.")
    seconds: float = size(3.0, "How long to watch the neighbour alone.")
    most: float = size(40.0, "Seconds after which an attack is broken off.")

    async def measure(self, turn: Measurement) -> list[Figure]:
        """Return figures for each attack, and the share of attacks that were withstood."""
        chosen = chosen_attacks(self.attacks)
        unloaded = await measure_unloaded(turn)
        alone = await self._carry_out(turn, self._target(turn), _nothing(self.seconds), "alone")
        if alone.harm:
            raise RequestFailed(alone.harm)
        usual = statistics.median(alone.gaps)
        target = self._target(turn)
        decent = await self._carry_out(turn, target, ordinary(target), "decent clients")
        step = max(*alone.gaps, *decent.gaps)
        figures = [Figure("gap between tokens alone, median", usual * 1e3, "ms", Better.LOWER)]
        figures += _gap_figures(alone, usual, step, "alone") + _gap_figures(decent, usual, step, "decent clients")
        withstood = 0
        for name, prepare in chosen.items():
            target = self._target(turn)
            impact = await self._carry_out(turn, target, prepare(target), name)
            withstood += impact.is_within_bounds(step)
            figures += _gap_figures(impact, usual, step, name) + _other_figures(impact, step, name)
            with trio.move_on_after(self.most):  # what an attack leaves behind is not to count for the next one
                await measure_freed(turn, unloaded, trio.current_time())
        return [*figures, Figure("withstood, of all", withstood / len(chosen), "", Better.HIGHER)]

    def _target(self, turn: Measurement) -> AttackTarget:
        return AttackTarget(turn.client, self.scale, self.tokens, self.pause)

    async def _carry_out(self, turn: Measurement, target: AttackTarget, action: Action, name: str) -> Impact:
        """Carry out an action, which was made beforehand, beside a neighbour, and measure its impact."""
        turn.note(name)
        impact = Impact(answers=target.answers)
        before = turn.memory()
        try:
            async with (
                _pulse(impact),
                _memory_watch(turn, impact, before),
                open_traffic(turn, 1, self.tokens) as traffic,
            ):
                began = trio.current_time()
                try:
                    with trio.move_on_after(self.most):
                        await action()
                        impact.ended = True
                    await trio.sleep(min(SETTLE_SECONDS, self.seconds))
                finally:
                    impact.gaps = traffic.gaps(began, trio.current_time())
        except* RequestFailed as group:
            impact.harm = f"{name}: {leaves(group)[0]}"
        if not impact.gaps:
            impact.harm, impact.gaps = impact.harm or f"{name}: the neighbour got no tokens meanwhile", [self.most]
        impact.left = None if before is None else (turn.memory() or 0) - before
        return impact


def chosen_attacks(names: str) -> dict[str, Callable[[AttackTarget], Action]]:
    """Return the attacks with these names, in this order.  Raises RequestFailed if there is no attack of a name."""
    if names == ALL:
        return ATTACKS
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in ATTACKS]:
        raise RequestFailed(f"no attacks of these names: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    return {name: ATTACKS[name] for name in wanted}


def _nothing(seconds: float) -> Action:
    async def action() -> None:
        await trio.sleep(seconds)

    return action


@asynccontextmanager
async def _pulse(impact: Impact) -> AsyncIterator[None]:
    """Measure how late this process is at most, because it is busy or the machine is."""

    async def beat() -> None:
        while True:
            due = trio.current_time() + PULSE_SECONDS
            await trio.sleep_until(due)
            impact.own_delay = max(impact.own_delay, trio.current_time() - due)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _memory_watch(turn: Measurement, impact: Impact, before: int | None) -> AsyncIterator[None]:
    async def watch(before: int) -> None:
        while True:
            impact.growth = max(impact.growth or 0, (turn.memory() or 0) - before)
            await trio.sleep(MEMORY_SECONDS)

    async with trio.open_nursery() as nursery:
        if before is not None:
            nursery.start_soon(watch, before)
        yield
        nursery.cancel_scope.cancel()


def _gap_figures(impact: Impact, usual: float, step: float, case: str) -> list[Figure]:
    longest = max(impact.gaps)
    return [
        Figure("longest gap", longest * 1e3, "ms", Better.LOWER, case),
        Figure("longest gap over the median alone", longest / usual, "", Better.LOWER, case),
        Figure("beyond a step", max(0.0, longest - step) * 1e3, "ms", Better.LOWER, case),
        Figure("the client itself was late, at most", impact.own_delay * 1e3, "ms", Better.NEITHER, case),
    ]


def _other_figures(impact: Impact, step: float, case: str) -> list[Figure]:
    figures = [
        Figure(f"answered {status}", count, "times", Better.NEITHER, case)
        for status, count in sorted((impact.answers or {}).items())
    ]
    if impact.harm:
        figures.append(Figure("the neighbour was broken off", 1, "times", Better.LOWER, case))
    if not impact.ended:
        figures.append(Figure("broken off by us", 1, "", Better.NEITHER, case))
    for name, grown in (("memory grew, at most", impact.growth), ("memory grew, in the end", impact.left)):
        if grown is not None:
            figures.append(Figure(name, grown / 1e6, "MB", Better.LOWER, case))
    return [*figures, Figure("withstood", float(impact.is_within_bounds(step)), "", Better.HIGHER, case)]
