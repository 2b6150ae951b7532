"""One request cancelled at every moment there is, in several schedules: nobody else may notice.

A moment is the time just before any task of the program takes its next step; that includes every checkpoint of the
request's own tasks and every layer boundary of every step.  `Simulation` checks the invariants, here and everywhere.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from actors.core.generation import Finished, FinishReason
from actors.core.receipts import CancelReason
from runtime.kv.rings import Rings
from runtime.loading.served import Proposer
from runtime.sampling.tokens import SampleSpec
from runtime.step.executor import run_to_end
from runtime.step.step import CancelMark, Segment, SegmentOutput, StepResult, run_step
from runtime.testing.simulated import SimulatedBatch, SimulatedModel
from tests.fakes.kv_simulation import open_kv_simulation
from tests.fakes.simulation import (
    CULPRIT,
    GREEDY,
    VOCABULARY,
    AtStep,
    Simulation,
    Story,
    ask,
    open_simulation,
    prompt,
    run,
    windowed,
)
from tests.models.step_driver import pages_of
from tests.rows import every_row

SHARED = prompt(9)
RING = windowed(5, 8)  # what a step writes of the prompts below soon drives out what was before it
LONG = prompt(70)  # more than a block, so that one request may wait for another to read it, and copy
BLOCKS = prompt(130)
VICTIM = "victim"


@dataclass(frozen=True)
class Scenario:
    """`warm_up` runs first, so that its tokens are resident; then all of `requests`, the victim among them, arrive."""

    slots: int
    requests: dict[str, tuple[list[int], ...]]
    warm_up: list[int] | None = None
    raise_on: set[int] = field(default_factory=set)
    chunk_tokens: int = 6
    speculate: Proposer = Proposer.OFF
    ram: int | None = None  # blocks; what is warmed up is then there, and in no slot
    max_tokens: int = 3
    rings: Rings | None = None

    @property
    def vocabulary(self) -> int:
        """So few that pairs of them come again, where drafts are looked up."""
        return 5 if self.speculate is Proposer.NGRAM else VOCABULARY

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Simulation]:
        """The engine, warmed up."""
        how: dict[str, Any] = {"slots": self.slots, "layers": 2, "chunk_tokens": self.chunk_tokens}
        how |= {"rings": self.rings}
        drafts: dict[str, Any] = {"speculate": self.speculate, "draft_tokens": 3, "vocabulary": self.vocabulary}
        if self.ram is None:
            async with open_simulation(context=96, **how, **drafts) as sim:
                await self._warm_up(sim)
                yield sim
            return
        async with open_kv_simulation(context=256, ram=self.ram, **how, **drafts) as kv_sim:
            await self._warm_up(kv_sim)
            await kv_sim.settle()
            kv_sim.evict()
            yield kv_sim

    async def _warm_up(self, sim: Simulation) -> None:
        if self.warm_up is not None:
            await sim.client(ask("warm-up", self.warm_up, max_tokens=2))


SCENARIOS = {
    "one behind the other": Scenario(1, {VICTIM: (prompt(10),), "other": (prompt(5, start=7),)}),
    "the other ahead": Scenario(1, {"other": (prompt(5, start=7),), VICTIM: (prompt(10),)}),
    "side by side": Scenario(2, {VICTIM: (prompt(10),), "other": (prompt(10, start=7),)}),
    "same prompt": Scenario(2, {VICTIM: (SHARED,), "other": (SHARED,)}),
    "three for two slots": Scenario(2, {VICTIM: (prompt(9),), "second": (prompt(5, start=7),), "third": (prompt(9),)}),
    "cache hit": Scenario(1, {VICTIM: ([*SHARED, 1, 2],), "other": ([*SHARED, 3],)}, warm_up=SHARED),
    "cache miss": Scenario(1, {VICTIM: (prompt(9, start=11),), "other": ([*SHARED, 3],)}, warm_up=SHARED),
    "two generations": Scenario(2, {VICTIM: (SHARED, SHARED), "other": (prompt(5, start=7),)}),
    "a neighbour fails": Scenario(
        2,
        {VICTIM: (prompt(9),), "culprit": ([4, 5, CULPRIT],), "other": (prompt(4, start=7),)},
        raise_on={CULPRIT},
    ),
    "it fails itself": Scenario(
        2, {VICTIM: ([*prompt(9), CULPRIT],), "other": (prompt(9, start=7),)}, raise_on={CULPRIT}
    ),
    "it reads for another": Scenario(2, {VICTIM: (LONG,), "other": ([*LONG, 3],)}, chunk_tokens=30),
    "another reads for it": Scenario(2, {"other": (LONG,), VICTIM: ([*LONG, 3],)}, chunk_tokens=30),
    "three read one prompt": Scenario(
        3, {"first": (LONG,), VICTIM: ([*LONG, 3],), "third": ([*LONG, 4],)}, chunk_tokens=30
    ),
    "a resident prefix in another slot": Scenario(
        2, {VICTIM: ([*LONG, 3],), "other": ([*LONG, 4],)}, warm_up=LONG, chunk_tokens=30
    ),
    "drafts by a model": Scenario(
        2, {VICTIM: (prompt(9),), "other": (prompt(6, start=7),)}, speculate=Proposer.DRAFT, max_tokens=9
    ),
    "drafts by a module": Scenario(
        2, {VICTIM: (prompt(9),), "other": (prompt(6, start=7),)}, speculate=Proposer.MTP, max_tokens=9
    ),
    "drafts that are looked up": Scenario(
        2, {VICTIM: (prompt(9),), "other": (prompt(6, start=7),)}, speculate=Proposer.NGRAM, max_tokens=12
    ),
    "drafts, and one slot for two": Scenario(
        1, {VICTIM: (prompt(9),), "other": ([*prompt(9), 3],)}, speculate=Proposer.DRAFT, max_tokens=6
    ),
    "blocks in memory": Scenario(
        2, {VICTIM: ([*BLOCKS, 3],), "other": ([*BLOCKS, 4],)}, warm_up=BLOCKS, chunk_tokens=30, ram=100
    ),
    "blocks in memory that give way to others": Scenario(
        1, {VICTIM: ([*BLOCKS, 3],), "other": (prompt(66, start=7),)}, warm_up=BLOCKS, chunk_tokens=30, ram=2
    ),
    "blocks in memory, and drafts by a module": Scenario(
        2,
        {VICTIM: ([*BLOCKS, 3],), "other": (prompt(6, start=7),)},
        warm_up=BLOCKS,
        chunk_tokens=30,
        ram=100,
        speculate=Proposer.MTP,
        max_tokens=6,
    ),
    "a window, and one slot for two": Scenario(1, {VICTIM: (prompt(20),), "other": ([*prompt(20), 3],)}, rings=RING),
    "a window, and a changed end": Scenario(
        1, {VICTIM: ([*prompt(30)[:24], 1, 2],), "other": ([*prompt(30), 3],)}, warm_up=prompt(30), rings=RING
    ),
    "a window, and drafts by a model": Scenario(
        2,
        {VICTIM: (prompt(20),), "other": (prompt(17, start=7),)},
        speculate=Proposer.DRAFT,
        max_tokens=9,
        rings=RING,
    ),
    "a window, and another reads for it": Scenario(
        2, {"other": (LONG,), VICTIM: ([*LONG, 3],)}, chunk_tokens=30, rings=windowed(12, 40)
    ),
    "a window, and blocks in memory": Scenario(
        2,
        {VICTIM: ([*BLOCKS, 3],), "other": ([*BLOCKS, 4],)},
        warm_up=BLOCKS,
        chunk_tokens=30,
        ram=100,
        rings=windowed(30, 70),
    ),
}


def hang_up(_: Simulation, victim: Story) -> None:
    victim.connection.cancel()


def operator(sim: Simulation, _: Story) -> None:
    sim.engine.cancel(VICTIM)


CANCELS = {"hang-up": hang_up, "operator": operator}
SCHEDULERS = {"hang-up": 0, "operator": 1}  # seeds of the orders in which tasks take their turns


def play(scenario: Scenario, seed: int, n: int | None, cancel: Callable[[Simulation, Story], None]) -> int:
    """Cancel the victim before the n-th step that any task takes while it lives; returns how many steps there are."""
    playing: list[tuple[Simulation, Story]] = []

    def is_live(_: trio.lowlevel.Task) -> bool:
        return bool(playing) and playing[0][1].opened and not playing[0][1].ended

    instrument = AtStep(n, lambda: cancel(*playing[0]), is_live)

    async def main() -> None:
        async with scenario.open() as sim:
            sim.faults.raise_on |= scenario.raise_on
            most = scenario.max_tokens
            asked = [ask(request_id, *prompts, max_tokens=most) for request_id, prompts in scenario.requests.items()]
            playing.append((sim, sim.expect(next(a for a in asked if a.id == VICTIM))))
            async with trio.open_nursery() as nursery:
                for position, one in enumerate(asked):
                    arrives = trio.current_time() + position / 1000
                    nursery.start_soon(functools.partial(sim.client, one, arrives=arrives))
            check(sim, scenario, cancelled=n is not None)

    run(main, seed=seed, instruments=[instrument])
    return instrument.steps


def check(sim: Simulation, scenario: Scenario, *, cancelled: bool) -> None:
    for request_id, prompts in scenario.requests.items():
        story = sim.stories[request_id]
        if request_id == VICTIM and cancelled:
            reasons = {receipt.reason for receipt in story.receipts}
            assert reasons <= {CancelReason.DISCONNECT, CancelReason.OPERATOR, CancelReason.FAULT}
            continue
        for index, tokens in enumerate(prompts):
            if not scenario.raise_on.intersection(tokens):
                assert story.finished(index).reason is FinishReason.LENGTH
                assert story.tokens(index) == sim.model.continuation(tokens, scenario.max_tokens)


@pytest.mark.parametrize("cancel", list(CANCELS))
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_cancel_at_every_moment(name: str, cancel: str) -> None:
    scenario = SCENARIOS[name]
    seed = SCHEDULERS[cancel]
    moments = play(scenario, seed, None, CANCELS[cancel])
    assert moments > 10
    for n in range(moments):
        try:
            play(scenario, seed, n, CANCELS[cancel])
        except BaseException as error:
            error.add_note(f"{name}, {cancel} before step {n} of {moments}, scheduler seed {seed}")
            raise


def test_a_retry_after_a_hang_up_at_every_moment() -> None:
    """C3: it finds all that was kept, and gets the tokens of a clean run."""

    def play_with_retry(n: int | None) -> int:
        stories: list[Story] = []
        instrument = AtStep(
            n,
            lambda: stories[0].connection.cancel(),
            lambda _: len(stories) > 0 and stories[0].opened and not stories[0].ended,
        )

        async def main() -> None:
            async with open_simulation(slots=1, layers=2, context=64, chunk_tokens=6) as sim:
                stories.append(sim.expect(ask(VICTIM, prompt(20), max_tokens=4)))
                first = await sim.client(stories[0].asked)
                sent = first.tokens(all=True)
                again = await sim.client(ask("retry", [*prompt(20), *sent], max_tokens=4))
                assert again.tokens() == sim.model.continuation([*prompt(20), *sent], 4)
                last = first.last()
                if isinstance(last, Finished) and last.reason is FinishReason.CANCELLED:
                    kept = first.receipt.cached_tokens + first.receipt.kept_tokens
                    # A token that nobody was told of is not in the retry; its KV was not computed either.
                    assert again.finished().cached_tokens == min(kept, 20 + len(sent) - 1)

        run(main, instruments=[instrument])
        return instrument.steps

    for n in range(play_with_retry(None)):
        play_with_retry(n)


# --- inside one step --------------------------------------------------------------------------------------------------


class CancelsWithin(SimulatedModel):
    """Sets marks in the middle of layers, as a device thread would find them."""

    def __init__(self, layers: int, when: dict[int, list[CancelMark]], clock: Callable[[], float]) -> None:
        super().__init__(slots=3, context=16, num_layers=layers)
        self.when = when
        self.clock = clock
        self.computed: list[int] = []  # in each layer that ran

    def run_layer(self, batch: SimulatedBatch, index: int) -> int:
        """Set the marks of this layer, and count the rows that it still computes."""
        for mark in self.when.get(index, []):
            mark.set(self.clock)
        self.computed.append(sum(len(segment.token_ids) for segment in batch.segments))
        return super().run_layer(batch, index)

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Set the marks that come after the last layer."""
        for mark in self.when.get(self.num_layers, []):
            mark.set(self.clock)
        return super().finish(batch)


def one_step(layers: int, moments: tuple[int | None, ...]) -> tuple[StepResult, list[Segment], CancelsWithin]:
    """Three segments; segment i is cancelled within layer `moments[i]` (-1: before the step)."""
    ticks = iter(range(10_000))
    segments = [
        Segment(i, 0, prompt(3 + i, start=i + 3), sample=SampleSpec(GREEDY, 3 + i, 0), pages=pages_of(i, 16))
        for i in range(3)
    ]
    when: dict[int, list[CancelMark]] = {}
    for segment, moment in zip(segments, moments, strict=True):
        if moment is not None:
            when.setdefault(moment, []).append(segment.mark)
    model = CancelsWithin(layers, when, lambda: float(next(ticks)))
    for mark in when.get(-1, []):
        mark.set(model.clock)
    return run_to_end(run_step(model, segments, model.clock)), segments, model


MOMENTS: list[int | None] = [None, -1, 0, 1, 2, 3]


@every_row("first, second, third", itertools.product(MOMENTS, repeat=3))
def test_cancels_within_every_layer(first: int | None, second: int | None, third: int | None) -> None:
    """C1 and C2 for one step of three layers: each segment runs at most the layer in which it was cancelled."""
    moments = (first, second, third)
    result, segments, model = one_step(3, moments)
    for moment, segment, entry in zip(moments, segments, result.segments, strict=True):
        if moment is None or moment >= 2:  # in the last layer, or after it: everything is there
            assert entry.computed
            assert [token.token_id for token in entry.tokens] == model.continuation(list(segment.token_ids), 1)
        else:
            assert not entry.computed
            assert not entry.tokens
            assert (entry.last_kernel_at is None) == (moment == -1)
        expected = 1 if moment is not None and 0 <= moment < 3 else 0
        assert entry.layers_after_cancel == expected
    for layer, rows in enumerate(model.computed):
        alive = [s for s, m in zip(segments, moments, strict=True) if m is None or m >= layer]
        assert rows == sum(len(segment.token_ids) for segment in alive)
    assert result.layers_run == len(model.computed)
    last = max(3 if moment is None else moment for moment in moments)
    assert result.layers_run == min(last + 1, 3)
