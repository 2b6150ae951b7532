"""Cancels at random moments of steps that two processes compute, beside rows that notice nothing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.step.job import StepJob
from runtime.step.step import Segment, StepResult
from runtime.step.thread_executor import ThreadExecutor, open_thread_executor
from runtime.store.resolve import resolve_model
from tests.live.ranks.processes import MOST_LAYERS
from tests.models.step_driver import greedy, pages_of
from web.serving.ranks import open_ranks

RANKS = 2
ROWS, LEAVE = 16, 12  # segments of a step, and how many of them are cancelled
PROMPT = 12  # tokens of a segment
CONTEXT = 128
LONGEST_WAIT = 0.002  # seconds between two cancels of a step


@dataclass(slots=True)
class Report:
    """Result of the cancels.

    Attributes:
        dropped: segments that were not computed to their end.
        layers: that ended after a cancel, by how often.
        wrong: segments with another token than alone, or that were dropped though nobody wanted that.
    """

    steps: int = 0
    cancels: int = 0
    dropped: int = 0
    layers: Counter[int] = field(default_factory=Counter)
    wrong: int = 0

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join(
            [
                f"{self.cancels} cancels in {self.steps} steps of {RANKS} ranks; {self.dropped} segments were dropped",
                f"layers after the cancel: {dict(sorted(self.layers.items()))}",
                f"{self.wrong} segments with a wrong token, or dropped without a cancel",
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        assert self.dropped, self
        assert max(self.layers) <= MOST_LAYERS, self
        assert not self.wrong, self


async def cancel_many(cancels: int, *, seed: int) -> Report:
    """Cancel so many segments of steps; a step that never ended would be waited for in vain."""
    rng, report = random.Random(seed), Report()
    options = LoadOptions(
        resolve_model(None), slots=ROWS, context=CONTEXT, device="cpu", dtype="float32", tensor_parallel=RANKS
    )
    _, config = describe_model(options, "m")
    token_ids = [rng.randrange(200) for _ in range(PROMPT)]
    async with open_ranks(RANKS) as ranks:
        assert ranks is not None
        load = partial(load_model, options, config, others=ranks.others)
        async with open_thread_executor(load, around=ranks.others.step) as executor:
            alone = await executor.run_step(StepJob([segment_of(0, token_ids)]))
            while report.cancels < cancels:
                segments = [segment_of(slot, token_ids) for slot in range(ROWS)]
                leaving = rng.sample(range(ROWS), LEAVE)
                result = await cancelled_step(executor, segments, leaving, rng)
                report.cancels += len(leaving)
                judge(report, result, alone, leaving)
    return report


def segment_of(slot: int, token_ids: list[int]) -> Segment:
    """A prompt from its beginning, after which a token is drawn."""
    return Segment(slot, 0, token_ids, sample=greedy(len(token_ids)), pages=pages_of(slot, CONTEXT))


async def cancelled_step(
    executor: ThreadExecutor[Any], segments: list[Segment], leaving: list[int], rng: random.Random
) -> StepResult:
    """Run a step, and cancel these of its segments one after the other meanwhile."""
    results: list[StepResult] = []

    async def run() -> None:
        results.append(await executor.run_step(StepJob(segments)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        for index in leaving:
            await trio.sleep(rng.uniform(0, LONGEST_WAIT))
            segments[index].mark.set(executor.clock)
    return results[0]


def judge(report: Report, result: StepResult, alone: StepResult, leaving: list[int]) -> None:
    """Add what became of a step's segments."""
    report.steps += 1
    expected = alone.segments[0].tokens[0].token_id
    for index, output in enumerate(result.segments):
        if output.computed:
            report.wrong += output.tokens[0].token_id != expected
        else:
            report.dropped += 1
            report.wrong += index not in leaving
        report.layers[output.layers_after_cancel] += 1
