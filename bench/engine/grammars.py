"""Measures what a grammar costs: time per token with and without one, for one stream and for several.

    python -m bench.engine.grammars
    python -m bench.engine.grammars --model smollm2 --streams 1 --streams 4

Each round writes texts of so many tokens under a grammar that allows any text, under a schema whose strings never end,
and under none; what is compared is the same number of tokens of the same prompts.  The rounds go forth and back through
the three, so that what else the machine does meets all of them.  It only ever adds time: beside the median stands the
ratio of the fastest fifth of the rounds.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
import trio

import actors
from actors.core.generation import Failed, GenerationRequest, Token
from actors.kv.config import TierOptions
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from actors.engine import Engine

PROMPT = "import json\n\n# a long text\nsettings = "
STRING = {"type": "string", "minLength": 100_000}
GRAMMARS: dict[str, Grammar | None] = {
    "none": None,
    "any text": Grammar(GrammarKind.REGEX, r"(.|\n)*"),
    "schema": Grammar(
        GrammarKind.JSON_SCHEMA,
        json.dumps({"type": "object", "properties": {"text": STRING}, "required": ["text"]}),
    ),
}


@asynccontextmanager
async def open_model(model: str | None, slots: int) -> AsyncIterator[Engine]:
    """Open an engine with so many slots over a model as it is served, without drafts."""
    options = LoadOptions(resolve_model(model), slots=slots, context=1024, speculate=Proposer.OFF)
    async with actors.open_model(options, tiers=TierOptions(ram=0)) as opened:
        yield opened.engine


async def write(engine: Engine, name: str, grammar: Grammar | None, tokens: int, times: list[float]) -> None:
    """Write a text of so many tokens, and note when each came.

    Raises:
        CedeError: the generation failed.
    """
    ids = tuple(engine.model.tokenizer.encode(PROMPT))
    sampling = SamplingParams(temperature=1.0, seed=len(times) + 1)
    asked = GenerationRequest(
        name, (ids,), sampling, max_tokens=tokens, ignore_eos=True, speculate=False, grammar=grammar
    )
    async with engine.open_request(asked) as request:
        async for event in request:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Token):
                times.append(time.perf_counter())


async def seconds_per_token(engine: Engine, grammar: Grammar | None, streams: int, tokens: int) -> float:
    """Return the time from a token to the next, the median over all streams that write at once."""
    times: list[list[float]] = [[] for _ in range(streams)]
    async with trio.open_nursery() as nursery:
        for stream in range(streams):
            nursery.start_soon(write, engine, f"stream {stream}", grammar, tokens, times[stream])
    gaps = [later - earlier for own in times for earlier, later in itertools.pairwise(own)]
    return statistics.median(gaps)


async def measure(model: str | None, all_streams: Sequence[int], rounds: int, tokens: int) -> None:
    """Print a line for each number of streams."""
    for streams in all_streams:
        async with open_model(model, streams) as engine:
            figures: dict[str, list[float]] = {name: [] for name in GRAMMARS}
            for number in range(rounds + 1):
                for name, grammar in list(GRAMMARS.items())[:: 1 if number % 2 else -1]:
                    seconds = await seconds_per_token(engine, grammar, streams, tokens)
                    if number:  # the first round compiles, and warms everything up
                        figures[name].append(seconds)
            print(f"{streams} streams, per token: {describe(figures)}", flush=True)


def describe(figures: Mapping[str, Sequence[float]]) -> str:
    """Say medians of the rounds' seconds, and how many times those without a grammar each is, round by round."""
    return ", ".join(
        f"{name} {statistics.median(own) * 1e3:.3f} ms"
        + ("" if name == "none" else f" ({_times(own, figures['none'])})")
        for name, own in figures.items()
    )


def _times(own: Sequence[float], without: Sequence[float]) -> str:
    ratios = [seconds / bare for seconds, bare in zip(own, without, strict=True)]
    fastest = statistics.quantiles(own, n=5)[0] / statistics.quantiles(without, n=5)[0]
    return f"{statistics.median(ratios):.3f} times, {min(ratios):.3f} to {max(ratios):.3f}; undisturbed {fastest:.3f}"


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--streams", multiple=True, default=(1, 4), type=int, show_default=True)
@click.option("--rounds", default=15, type=click.IntRange(min=2), show_default=True)
@click.option("--tokens", default=384, show_default=True)
def main(model: str | None, streams: Sequence[int], rounds: int, tokens: int) -> None:
    """Measure."""
    trio.run(measure, model, streams, rounds, tokens)


if __name__ == "__main__":
    main()
