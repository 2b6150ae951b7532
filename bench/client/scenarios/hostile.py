"""What one hostile client can do to a neighbour."""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import trio

from bench.client.attacks.catalogue import ATTACKS, ordinary
from bench.client.attacks.sending import AttackTarget
from bench.client.harness.client import RequestFailed
from bench.client.harness.figures import Better, Figure
from bench.client.harness.runner import leaves
from bench.client.harness.turn import measure_freed, measure_unloaded, open_traffic, size

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Callable

    from bench.client.attacks.sending import Action
    from bench.client.harness.turn import Turn

MEMORY_SECONDS = 0.05  # between two looks
PULSE_SECONDS = 0.005
SETTLE_SECONDS = 1.0  # after an attack, until its memory is looked at again
MAX_EXTRA_GAP = 0.05  # seconds that an attack may cost a neighbour beyond a step
MAX_GROWTH = 100 * 10**6  # bytes that it may cost the server

ALL = "all"


@dataclass
class Toll:
    """What was seen while something went on.

    Attributes:
        gaps: seconds between the neighbour's tokens.
        growth, left: bytes that the server's memory grew by, at most and in the end; None where we cannot look.
        own_delay: seconds that this very client was late at most, with its own pulse: no gap is known any better.
        answers: what the server said, by status.
        ended: by itself, and not because its time was over.
        harm: what became of the neighbour's stream, where it was broken off.
    """

    gaps: list[float] = field(default_factory=list)
    growth: int | None = None
    left: int | None = None
    own_delay: float = 0.0
    answers: Counter[str] | None = None
    ended: bool = False
    harm: str = ""

    def keeps_to_bounds(self, step: float) -> bool:
        """Whether it cost nobody more than was agreed; `step` is the longest gap beside decent clients."""
        return not self.harm and max(self.gaps) - step <= MAX_EXTRA_GAP and (self.growth or 0) <= MAX_GROWTH


@dataclass(frozen=True)
class Hostile:
    """A neighbour streams tokens, and beside it one hostile request after the other does what it can.

    For each: the longest gap between the neighbour's tokens, over the median gap alone and beyond a step; what the
    server answered; and how its memory grew.  A step is the longest gap beside decent clients with long prompts.  An
    attack is withstood that costs the neighbour at most 50 ms beyond a step, and the server at most 100 MB, where its
    memory can be looked at.  A server without bounds may need several GiB: take a smaller --scale first.
    """

    name: ClassVar[str] = "hostile"

    attacks: str = size(ALL, "Names of attacks with commas between them, or all.")
    scale: float = size(1.0, "Of the attacks' sizes; at 1 the largest bodies are of 15.5 MiB.")
    tokens: int = size(3900, "Tokens of the attacks' long answers, and of the neighbour's; prompts are half of it.")
    pause: float = size(5.0, "Seconds for which a hostile reader reads nothing.")
    seconds: float = size(3.0, "How long to watch the neighbour alone.")
    most: float = size(40.0, "Seconds after which an attack is broken off.")

    async def measure(self, turn: Turn) -> list[Figure]:
        """Figures for each attack, and the share of those that were withstood."""
        chosen = chosen_attacks(self.attacks)
        unloaded = await measure_unloaded(turn)
        alone = await self._suffer(turn, self._aim(turn), _nothing(self.seconds), "alone")
        if alone.harm:
            raise RequestFailed(alone.harm)
        usual = statistics.median(alone.gaps)
        aim = self._aim(turn)
        decent = await self._suffer(turn, aim, ordinary(aim), "decent clients")
        step = max(*alone.gaps, *decent.gaps)
        figures = [Figure("gap between tokens alone, median", usual * 1e3, "ms", Better.LOWER)]
        figures += _gap_figures(alone, usual, step, "alone") + _gap_figures(decent, usual, step, "decent clients")
        withstood = 0
        for name, prepare in chosen.items():
            aim = self._aim(turn)
            toll = await self._suffer(turn, aim, prepare(aim), name)
            withstood += toll.keeps_to_bounds(step)
            figures += _gap_figures(toll, usual, step, name) + _other_figures(toll, step, name)
            with trio.move_on_after(self.most):  # what it has left behind is its own, and not the next one's
                await measure_freed(turn, unloaded, trio.current_time())
        return [*figures, Figure("withstood, of all", withstood / len(chosen), "", Better.HIGHER)]

    def _aim(self, turn: Turn) -> AttackTarget:
        return AttackTarget(turn.client, self.scale, self.tokens, self.pause)

    async def _suffer(self, turn: Turn, aim: AttackTarget, act: Action, name: str) -> Toll:
        """Carry it out beside a neighbour.  Whatever it needs has been made before."""
        turn.note(name)
        toll = Toll(answers=aim.answers)
        before = turn.memory()
        try:
            async with _pulse(toll), _memory_watch(turn, toll, before), open_traffic(turn, 1, self.tokens) as traffic:
                began = trio.current_time()
                try:
                    with trio.move_on_after(self.most):
                        await act()
                        toll.ended = True
                    await trio.sleep(min(SETTLE_SECONDS, self.seconds))
                finally:
                    toll.gaps = traffic.gaps(began, trio.current_time())
        except* RequestFailed as group:
            toll.harm = f"{name}: {leaves(group)[0]}"
        if not toll.gaps:
            toll.harm, toll.gaps = toll.harm or f"{name}: the neighbour got no tokens meanwhile", [self.most]
        toll.left = None if before is None else (turn.memory() or 0) - before
        return toll


def chosen_attacks(names: str) -> dict[str, Callable[[AttackTarget], Action]]:
    """Those of the names, in their order.  Raises RequestFailed where there is no such attack."""
    if names == ALL:
        return ATTACKS
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in ATTACKS]:
        raise RequestFailed(f"no attacks of these names: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    return {name: ATTACKS[name] for name in wanted}


def _nothing(seconds: float) -> Action:
    async def act() -> None:
        await trio.sleep(seconds)

    return act


@asynccontextmanager
async def _pulse(toll: Toll) -> AsyncIterator[None]:
    """Note how late this process itself is, at most: because it is busy, or the machine is."""

    async def beat() -> None:
        while True:
            due = trio.current_time() + PULSE_SECONDS
            await trio.sleep_until(due)
            toll.own_delay = max(toll.own_delay, trio.current_time() - due)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _memory_watch(turn: Turn, toll: Toll, before: int | None) -> AsyncIterator[None]:
    async def watch(before: int) -> None:
        while True:
            toll.growth = max(toll.growth or 0, (turn.memory() or 0) - before)
            await trio.sleep(MEMORY_SECONDS)

    async with trio.open_nursery() as nursery:
        if before is not None:
            nursery.start_soon(watch, before)
        yield
        nursery.cancel_scope.cancel()


def _gap_figures(toll: Toll, usual: float, step: float, case: str) -> list[Figure]:
    longest = max(toll.gaps)
    return [
        Figure("longest gap", longest * 1e3, "ms", Better.LOWER, case),
        Figure("longest gap over the median alone", longest / usual, "", Better.LOWER, case),
        Figure("beyond a step", max(0.0, longest - step) * 1e3, "ms", Better.LOWER, case),
        Figure("the client itself was late, at most", toll.own_delay * 1e3, "ms", Better.NEITHER, case),
    ]


def _other_figures(toll: Toll, step: float, case: str) -> list[Figure]:
    figures = [
        Figure(f"answered {status}", count, "times", Better.NEITHER, case)
        for status, count in sorted((toll.answers or {}).items())
    ]
    if toll.harm:
        figures.append(Figure("the neighbour was broken off", 1, "times", Better.LOWER, case))
    if not toll.ended:
        figures.append(Figure("broken off by us", 1, "", Better.NEITHER, case))
    for name, grown in (("memory grew, at most", toll.growth), ("memory grew, in the end", toll.left)):
        if grown is not None:
            figures.append(Figure(name, grown / 1e6, "MB", Better.LOWER, case))
    return [*figures, Figure("withstood", float(toll.keeps_to_bounds(step)), "", Better.HIGHER, case)]
