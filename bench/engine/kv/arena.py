"""Measures what growth and moves in the arena of KV cost: the same load in an arena that is roomy, and in a tight one.

    python -m bench.engine.kv.arena
    python -m bench.engine.kv.arena --model smollm2 --rounds 4

Eight streams ask one thing after the other, of lengths that are drawn.  The roomy arena holds eight of the longest, so
hardly anything is moved there; the tight one holds a quarter more than they need on average, so sequences grow and make
room for one another.  Rounds go in turns.  The first figure is the tight arena's throughput over the roomy one's in the
same round; the other is the share of the time in which pieces were copied, when no step can run.  Whatever is said must
be the same, token by token.
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
import torch
import trio

import actors
from actors.core.generation import Failed, GenerationRequest, Token
from actors.core.observer import Observer
from actors.kv.config import TierOptions
from runtime.checkpoint.open import open_checkpoint
from runtime.loading.footprint import SlotMemory
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.step.transfer import Relocate
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.core.events import TransferBegins, TransferEnded
    from actors.engine import Engine

STREAMS = 8
SHORTEST, LONGEST = 128, 640  # tokens of a sequence, its prompt's included
ROOM = 1.25  # of the tight arena, over what the streams need on average
PROMPT = 0.25  # of a sequence
COUNTS = ("grown", "moves", "compactions", "moved_positions", "given_up")


class Copying(Observer):
    """Observer of how long pieces of sequences were copied."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began: float | None = None

    def transfer_begins(self, event: TransferBegins) -> None:
        """Note when a piece of a sequence is among what is moved."""
        if any(isinstance(transfer, Relocate) for transfer in event.transfers):
            self._began = time.perf_counter()

    def transfer_ended(self, event: TransferEnded) -> None:
        """Add up."""
        if self._began is not None:
            self.seconds += time.perf_counter() - self._began
        self._began = None


@dataclass(slots=True)
class Said:
    """Result of a round.

    Attributes:
        seconds: until the last stream ended.
        tokens: of each stream, in order.
    """

    seconds: float = 0.0
    tokens: list[list[int]] = field(default_factory=lambda: [[] for _ in range(STREAMS)])

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return sum(map(len, self.tokens)) / self.seconds


@asynccontextmanager
async def open_model(model: str | None, positions: int | None) -> AsyncIterator[Engine]:
    """Open an engine over a model in float32, with so many positions or as many as there may ever be; no tiers."""
    path, memory = resolve_model(model), None
    if positions is not None:
        memory = SlotMemory(open_checkpoint(path).config, torch.float32).nbytes(positions)
    options = LoadOptions(path, STREAMS, LONGEST, dtype="float32", speculate=Proposer.OFF, kv_memory=memory)
    async with actors.open_model(options, tiers=TierOptions(ram=0)) as opened:
        yield opened.engine


async def stream(engine: Engine, number: int, dice: random.Random, visits: int, said: list[int]) -> None:
    """Ask one thing after the other.

    Raises:
        CedeError: a generation failed.
    """
    for visit in range(visits):
        length = dice.randint(SHORTEST, LONGEST)
        prompt = tuple(dice.randrange(300, 3000) for _ in range(int(length * PROMPT)))
        asked = GenerationRequest(
            f"stream {number}, {visit}",
            (prompt,),
            SamplingParams(temperature=0.0),
            max_tokens=length - len(prompt),
            ignore_eos=True,
            speculate=False,
        )
        async with engine.open_request(asked) as request:
            async for event in request:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Token):
                    said.append(event.token_id)


async def run_round(engine: Engine, number: int, visits: int) -> Said:
    """Let all streams ask what is drawn for this round."""
    said, began = Said(), time.perf_counter()
    async with trio.open_nursery() as nursery:
        for place in range(STREAMS):
            dice = random.Random(f"{number} {place}")
            nursery.start_soon(stream, engine, place, dice, visits, said.tokens[place])
    said.seconds = time.perf_counter() - began
    return said


def counts_of(engine: Engine) -> dict[str, int]:
    """Return what was done in an engine's arena since the start."""
    arena = engine.statistics().manager.arena
    return {name: getattr(arena, name) for name in COUNTS}


async def measure(model: str | None, rounds: int, visits: int) -> None:
    """Print a line for each round, and one for all."""
    positions = int(STREAMS * (SHORTEST + LONGEST) / 2 * ROOM)
    async with AsyncExitStack() as stack:
        roomy = await stack.enter_async_context(open_model(model, None))
        tight = await stack.enter_async_context(open_model(model, positions))
        copying = Copying()
        stack.enter_context(tight.observed_by(copying))
        await run_round(roomy, -1, 1)
        await run_round(tight, -1, 1)
        ratios, shares, before = list[float](), list[float](), [counts_of(engine) for engine in (roomy, tight)]
        for number in range(rounds):
            copying.seconds = 0.0
            wide, narrow = await run_round(roomy, number, visits), await run_round(tight, number, visits)
            assert wide.tokens == narrow.tokens, "a stream that was moved says something else"
            ratios.append(narrow.rate / wide.rate)
            shares.append(copying.seconds / narrow.seconds)
            print(
                f"{wide.rate:.1f} and {narrow.rate:.1f} tokens/s: {ratios[-1]:.3f}, copying {shares[-1]:.2%}",
                flush=True,
            )
        for name, engine, was in zip(("roomy", "tight"), (roomy, tight), before, strict=True):
            done = {what: count - was[what] for what, count in counts_of(engine).items()}
            print(f"{name}: " + ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in done.items()))
    print(
        f"throughput {statistics.median(ratios):.3f} times, {min(ratios):.3f} to {max(ratios):.3f};"
        f" copying took {statistics.mean(shares):.2%}; all tokens are the same"
    )


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--rounds", default=8, show_default=True)
@click.option("--visits", default=4, show_default=True, help="Of each stream in a round.")
def main(model: str | None, rounds: int, visits: int) -> None:
    """Measure."""
    trio.run(measure, model, rounds, visits)


if __name__ == "__main__":
    main()
