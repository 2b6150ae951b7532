"""Measures the memory of sequences that begin alike: requests with one long prefix, and n choices of one prompt.

    python -m bench.engine.kv.sharing
    python -m bench.engine.kv.sharing --model qwen3-0.6b --prefix 2000

Each round is one process's: requests that come one after the other, or at once, or one that asks for several choices.
Printed are the positions of KV that are held, those of them that several sequences share, and by how many bytes the
process has grown; beside the positions that would be held without sharing.  Whatever is said must be what a request
alone says, token by token.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import psutil
import trio

from actors.config import EngineConfig
from actors.core.generation import Failed, GenerationRequest, Token
from actors.engine import open_engine
from bench.engine.models.open_models import MODELS, ModelSpec, open_model
from runtime.sampling.params import SamplingParams
from runtime.selftest.rates import random_prompt

if TYPE_CHECKING:
    from actors.engine import Engine

GREEDY = SamplingParams(temperature=0.0)
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of a round: so many, with so many choices each; all at once, or one after the other."""

    name: str
    requests: int
    choices: int = 1
    at_once: bool = False

    @property
    def sequences(self) -> int:
        """How many sequences there are in the end."""
        return self.requests * self.choices


def loads(sequences: int) -> tuple[Load, ...]:
    """Return the rounds for so many sequences; the first is a request alone."""
    return (
        Load("alone", 1),
        Load("one after the other", sequences),
        Load("at once", sequences, at_once=True),
        Load("choices of one prompt", 1, choices=sequences),
    )


async def ask(engine: Engine, name: str, prompt: tuple[int, ...], choices: int, tokens: int) -> list[list[int]]:
    """Return the tokens of each choice.

    Raises:
        CedeError: a generation failed.
    """
    said: list[list[int]] = [[] for _ in range(choices)]
    asked = GenerationRequest(name, (prompt,) * choices, GREEDY, max_tokens=tokens, ignore_eos=True)
    async with engine.open_request(asked) as request:
        async for event in request:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Token):
                said[event.index].append(event.token_id)
    return said


async def measure(spec: ModelSpec, load: Load, prefix: int, own: int, tokens: int) -> list[list[int]]:
    """Run a round in an engine of its own, print what it held, and return what was said."""
    async with (
        open_model(spec) as (executor, served),
        open_engine(executor, served, EngineConfig(slots=spec.slots)) as engine,
    ):
        model = executor.model
        shared = random_prompt(model, prefix, 1)
        prompts = [(*shared, *random_prompt(model, own, 2 + i)) for i in range(load.requests)]
        said: list[list[list[int]]] = [[] for _ in prompts]

        async def one(i: int) -> None:
            said[i] = await ask(engine, f"{load.name} {i}", prompts[i], load.choices, tokens)

        gc.collect()
        before = psutil.Process().memory_info().rss
        async with trio.open_nursery() as nursery:
            for i in range(load.requests):
                if load.at_once:
                    nursery.start_soon(one, i)
                else:
                    await one(i)
        grown, pool = psutil.Process().memory_info().rss - before, engine.statistics().manager.pool
        click.echo(
            f"{load.name}: {pool.held + pool.resident} positions held, {pool.shared} of them shared; without sharing"
            f" {load.sequences * (prefix + own + tokens)}; grown by {grown / MIB:.0f} MiB,"
            f" of which KV {(pool.held + pool.resident) * model.kv.bytes_per_position / MIB:.0f}"
        )
        return [choice for choices in said for choice in choices]


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--model", default="qwen3-0.6b", show_default=True, help=MODELS)
@click.option("--sequences", default=4, show_default=True, help="How many there are.")
@click.option("--prefix", default=8000, show_default=True, help="Tokens that they have in common.")
@click.option("--own", default=150, show_default=True, help="Tokens that a prompt has besides.")
@click.option("--tokens", default=50, show_default=True, help="Tokens of an answer.")
@click.option("--deterministic", default="on", show_default=True, help="`off`: answers may differ by rounding.")
def main(model: str, sequences: int, prefix: int, own: int, tokens: int, deterministic: str) -> None:
    """Run the rounds, and fail where what is said differs from what a request alone says."""
    spec = ModelSpec(model, sequences, prefix + own + tokens, deterministic=deterministic)
    said = [trio.run(measure, spec, load, prefix, own, tokens) for load in loads(sequences)]
    alone = said[0][0]
    for load, answers in zip(loads(sequences), said, strict=True):
        if answers[0] != alone or (load.choices > 1 and answers != [alone] * load.choices):
            raise click.ClickException(f"{load.name}: what was said is not what a request alone says")


if __name__ == "__main__":
    main()
