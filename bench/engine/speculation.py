"""One stream with and without speculation, in turns on one engine, as ratios.

    python -m bench.engine.speculation [--model FOLDER] [--draft FOLDER]
                                       [--proposer mtp --proposer draft --proposer ngram]
    python -m bench.engine.speculation --random            # a shape of random weights, whose drafts are never right

The prompts are held-out texts of the embedded model's own domain, or those of `--task`.  For `ngram` each prompt has
its text twice, so that there is something to copy.  `python -m bench.engine.grow FOLDER` makes a model of a real size
that the embedded draft is right about.
"""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import torch
import trio

from actors.config import EngineConfig
from actors.core.generation import Failed, Finished, GenerationRequest
from actors.engine import Engine, open_engine
from bench.engine.models.shapes import random_model, shape
from bench.engine.tasks import Task, task_prompts
from runtime.kv.cache import KVCache
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.nn.draft_model import DraftModel
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.weights import random_weights
from runtime.sampling.params import SamplingParams
from runtime.step.thread_executor import open_thread_executor
from runtime.store.resolve import embedded_draft, resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Completion:
    """The result of one completion.

    Attributes:
        speed: tokens per second after the first.
        drafted: tokens.
        accepted: tokens of those.
    """

    speed: float
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Load:
    """The models to load.

    Attributes:
        model: folder of the target.
        draft: folder of the draft model.
        dtype: a name, or `auto`.
        draft_tokens: drafts in a round; None to adapt their number.
        random: whether to use random weights of a real shape instead.
    """

    model: Path
    draft: Path
    dtype: str
    draft_tokens: int | None
    random: bool


async def complete(
    engine: Engine, prompt: Sequence[int], tokens: int, params: SamplingParams, speculate: bool
) -> Completion:
    """Run one completion to its end."""
    spec = GenerationRequest("bench", (tuple(prompt),), params, max_tokens=tokens, ignore_eos=True, speculate=speculate)
    async with engine.open_request(spec) as request:
        async for event in request:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                timings = event.timings
    return Completion((timings.predicted_n - 1) / timings.predicted_ms * 1e3, timings.draft_n, timings.draft_n_accepted)


@asynccontextmanager
async def open_model(load: Load, proposer: Proposer) -> AsyncIterator[tuple[Engine, ServedModel]]:
    """Open an engine of one slot that drafts by `proposer`."""
    options = LoadOptions(load.model, slots=1, dtype=load.dtype, context=2048, speculate=proposer, draft=load.draft)
    if proposer is not Proposer.DRAFT:
        options = replace(options, draft=None)
    served, config = describe_model(options, "bench")
    plan = plan_drafter(options, config, served.tokenizer)
    engine_config = EngineConfig(slots=1, speculate=proposer, draft_tokens=load.draft_tokens)

    def target() -> Transformer:
        if not load.random:
            return load_model(options, config, plan)
        return random_model(shape("qwen3-0.6b"), slots=1, context=2048, device=CPU, dtype=torch.bfloat16)

    def drafter(target: Transformer) -> Transformer | None:
        return _random_drafter(target) if load.random and proposer is Proposer.DRAFT else plan.load(target)

    async with (
        open_thread_executor(target, drafter) as executor,
        open_engine(executor, replace(served, rings=executor.model.kv.rings), engine_config) as engine,
    ):
        yield engine, served


def _random_drafter(target: Transformer) -> Transformer:
    """Make a draft model with a quarter of the target's width and depth, and the same vocabulary."""
    config = replace(
        target.config,
        hidden_size=256,
        intermediate_size=768,
        num_layers=7,
        num_heads=4,
        num_kv_heads=2,
        window=(None,) * 7,
        ropes=target.config.ropes[:1] * 7,
    )
    dtype = target.weights.embedding.dtype
    kv = KVCache(config, slots=1, context=target.context, device=CPU, dtype=dtype)
    weights = random_weights(
        config, device=CPU, dtype=dtype, seed=1, formats=choose_formats(Quantization.NONE, CPU, dtype)
    )
    return DraftModel(config, weights, kv, target.config.vocab_size)


async def measure(
    load: Load, proposer: Proposer, task: Task | None, count: int, tokens: int, params: SamplingParams
) -> None:
    """Complete each prompt with and without drafts, in turns, and print one line of figures."""
    task = task or (Task.COPY if proposer is Proposer.NGRAM else Task.COMPLETE)
    async with open_model(load, proposer) as (engine, served):
        chosen = task_prompts(served, task, count)
        await complete(engine, chosen[0], 32, params, speculate=True)  # warm-up, and a first estimate of costs
        ratios, plain, speculated = [], [], []
        for i, prompt in enumerate(chosen):
            order = (False, True) if i % 2 else (True, False)
            pair = {speculate: await complete(engine, prompt, tokens, params, speculate) for speculate in order}
            ratios.append(pair[True].speed / pair[False].speed)
            plain.append(pair[False].speed)
            speculated.append(pair[True])
        drafted, accepted = sum(c.drafted for c in speculated), sum(c.accepted for c in speculated)
        costs = engine.costs
        print(
            f"{proposer:6} {task:8} plain {statistics.median(plain):7.1f} tokens/s, with drafts "
            f"{statistics.median(c.speed for c in speculated):7.1f}, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}); accepted {accepted} of {drafted}; "
            f"steps: draft {_ms(costs.drafter.seconds(1))}, one row {_ms(costs.target.seconds(1))}, "
            f"four rows {_ms(costs.target.seconds(4))}",
            flush=True,
        )


def _ms(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * 1e3:.2f} ms"


@click.command(help=__doc__)
@click.option("--model", help="As for `cede serve`; the embedded model by default.")
@click.option("--draft", help="Folder of the draft model; the embedded one by default.")
@click.option("--dtype", default="auto")
@click.option(
    "--proposer",
    "proposers",
    multiple=True,
    default=("mtp", "draft", "ngram"),
    type=click.Choice([p.value for p in Proposer]),
)
@click.option("--task", type=click.Choice([task.value for task in Task]), help="What is asked for.")
@click.option("--draft-tokens", type=int, help="Drafts in a round; adapted by default.")
@click.option("--random", is_flag=True, help="Random weights of the shape of Qwen3-0.6B, which draft in vain.")
@click.option("--prompts", "count", default=9, show_default=True)
@click.option("--tokens", default=128, show_default=True)
@click.option("--temperature", default=0.0, show_default=True)
def main(
    model: str | None, draft: str | None, dtype: str, proposers: Sequence[str], task: str | None,
    draft_tokens: int | None, random: bool, count: int, tokens: int, temperature: float,
) -> None:  # fmt: skip
    """Measure each proposer."""
    load = Load(resolve_model(model), embedded_draft() if draft is None else Path(draft), dtype, draft_tokens, random)
    params = SamplingParams(temperature=temperature, reproducible=False)
    for proposer in proposers:
        if random and proposer == Proposer.MTP:
            continue  # there are no random weights for it
        trio.run(measure, load, Proposer(proposer), None if task is None else Task(task), count, tokens, params)


if __name__ == "__main__":
    main()
