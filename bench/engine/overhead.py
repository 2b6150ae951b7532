"""The overhead of the engine: its decoding against a bare loop of the same steps over the same model.

    python -m bench.engine.overhead [--model qwen3-0.6b|smollm2-135m|embedded] [--streams 1,4,8]

Engine and loop take turns in one process, on one device thread.  Reported for each number of streams are

- the tokens per second of both, and their ratio round by round;
- the device's idle gap between two steps of the engine, and of the loop;
- the time that Trio's tasks take for a token, measured by an instrument in a run of its own.

The last line holds the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING

import torch
import trio

from actors.config import EngineConfig
from actors.core.generation import Failed, GenerationRequest
from actors.engine import open_engine
from bench.engine.models.open_models import MODELS, ModelSpec, open_model
from runtime.selftest.rates import GREEDY, decode, prefill, random_prompt, seconds_per_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    import outcome

    from actors.engine import Engine
    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer
    from runtime.step.executor import Executor
    from runtime.step.job import StepJob
    from runtime.step.step import StepResult
    from runtime.step.thread_executor import ThreadExecutor
    from runtime.step.transfer import Transfer

SEEDS = count()


class RecordingExecutor:
    """Passes everything on to an executor, and records the results of steps.

    Args:
        executor: runs the steps.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.results: list[StepResult] = []

    def clock(self) -> float:
        """Return the executor's time in seconds."""
        return self._executor.clock()

    def wall_clock(self) -> float:
        """Return the executor's time since the epoch."""
        return self._executor.wall_clock()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run a step, and record its result."""
        result = await self._executor.run_step(job)
        self.results.append(result)
        return result

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[torch.Tensor | None]]:
        """Move KV."""
        return await self._executor.transfer(transfers)

    async def recover(self) -> None:
        """Recover the executor."""
        await self._executor.recover()


class TaskClock(trio.abc.Instrument):
    """Adds up the seconds in which Trio runs tasks: `seconds`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = time.perf_counter()  # this runs within a task

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note when a task begins to run."""
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Add the time that it ran."""
        self.seconds += time.perf_counter() - self._began


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a run of steps.

    Attributes:
        step: seconds from one step to the next.
        gap: seconds between the end of a step and the start of the next, median.
    """

    step: float
    gap: float

    @classmethod
    def of(cls, results: Sequence[StepResult]) -> Pace:
        """Return the pace of consecutive steps."""
        gaps = [after.started_at - before.finished_at for before, after in pairwise(results)]
        return cls(seconds_per_step(results), statistics.median(gaps))


@dataclass(frozen=True, slots=True)
class Bench:
    """The two ways to decode that are compared.

    Attributes:
        executor: runs the steps of both.
        served: the model as the engine knows it.
        depth: tokens of each prompt.
        tokens: of each stream.
    """

    executor: ThreadExecutor[Transformer]
    served: ServedModel
    depth: int
    tokens: int

    async def bare(self, streams: int) -> Pace:
        """Run the bare loop, on the device thread."""
        model = self.executor.model

        def run() -> list[StepResult]:
            for slot in range(streams):
                prefill(model, slot, random_prompt(model, self.depth, next(SEEDS)))
            return decode(model, streams, self.depth, self.tokens)

        return Pace.of(await self.executor.call(run))

    async def engine(self, streams: int) -> Pace:
        """Run an engine, and return the pace of the steps in which every stream decodes.

        Raises:
            ValueError: there are no two of them, since the first stream ends before the last prompt is read.
        """
        recording = RecordingExecutor(self.executor)
        async with open_engine(recording, self.served, EngineConfig(slots=streams)) as engine:
            await self._stream_all(engine, streams)
        together = [result for result in recording.results if _all_decode(result, streams)]
        if len(together) < 2:
            raise ValueError(f"with {self.tokens} tokens the first of {streams} ends before all prompts are read")
        return Pace.of(together)

    async def task_seconds(self, streams: int) -> float:
        """Return the seconds of Trio's tasks for each token.  They include prefill, which is little."""
        clock = TaskClock()
        async with open_engine(self.executor, self.served, EngineConfig(slots=streams)) as engine:
            trio.lowlevel.add_instrument(clock)
            try:
                await self._stream_all(engine, streams)
            finally:
                trio.lowlevel.remove_instrument(clock)
        return clock.seconds / (streams * self.tokens)

    async def _stream_all(self, engine: Engine, streams: int) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(streams):
                nursery.start_soon(self._stream, engine)

    async def _stream(self, engine: Engine) -> None:
        seed = next(SEEDS)
        prompt = random_prompt(self.executor.model, self.depth, seed)
        spec = GenerationRequest(f"bench-{seed}", (prompt,), GREEDY, max_tokens=self.tokens, ignore_eos=True)
        async with engine.open_request(spec) as request:
            async for event in request:
                if isinstance(event, Failed):
                    raise event.error


def _all_decode(result: StepResult, streams: int) -> bool:
    """Return whether every stream decodes in a step: in a step with prefill chunks not every segment gets a token."""
    return len(result.segments) == streams and all(segment.tokens for segment in result.segments)


async def measure(bench: Bench, streams: int, rounds: int) -> float:
    """Print the figures for a number of streams, and return the median ratio."""
    await bench.bare(streams)  # warm-up
    paces = []
    for number in range(rounds):
        if number % 2:
            engine, bare = await bench.engine(streams), await bench.bare(streams)
        else:
            bare, engine = await bench.bare(streams), await bench.engine(streams)
        paces.append((bare, engine))
    ratios = [bare.step / engine.step for bare, engine in paces]
    tasks = await bench.task_seconds(streams)
    print(
        f"streams {streams}: {_described('loop', streams, [bare for bare, _ in paces])}; "
        f"{_described('engine', streams, [engine for _, engine in paces])}; "
        f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"Trio's tasks {tasks * 1e6:.0f} us a token"
    )
    return statistics.median(ratios)


def _described(name: str, streams: int, paces: Sequence[Pace]) -> str:
    rate = statistics.median(streams / pace.step for pace in paces)
    gap = statistics.median(pace.gap for pace in paces)
    return f"{name} {rate:.1f} tokens/s, {gap * 1e6:.0f} us between steps"


async def main() -> None:
    """Parse the arguments, load the model, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen3-0.6b", help=MODELS)
    parser.add_argument("--streams", default="1,4,8")
    parser.add_argument("--tokens", type=int, default=256, help="per stream")
    parser.add_argument("--depth", type=int, default=64, help="tokens of each prompt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    streams = [int(number) for number in given.streams.split(",")]
    spec = ModelSpec(given.model, max(streams), given.depth + given.tokens + 1, given.dtype, given.device)
    async with open_model(spec) as (executor, served):
        kv = executor.model.kv
        threads = await executor.call(torch.get_num_threads)
        print(f"{given.model} in {kv.dtype}, {threads} threads, {given.depth} tokens deep, {given.rounds} rounds")
        bench = Bench(executor, served, given.depth, given.tokens)
        ratios = [await measure(bench, number, given.rounds) for number in streams]
    print(f"engine over bare loop, streams {given.streams}: {' '.join(f'{ratio:.3f}' for ratio in ratios)}")


if __name__ == "__main__":
    trio.run(main)
