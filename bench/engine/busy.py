"""Decoding alone and beside programs that never rest, on a fixed number of threads and on the number that is fastest.

    GOMP_SPINCOUNT=10000 python -m bench.engine.busy [--model smollm2-135m] [--loops 1]

Bare steps of one stream, in turns: each way alone and beside, then all again.  OpenMP reads how long threads spin at
its barriers only once, so other values of GOMP_SPINCOUNT are other runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import click
import torch
import trio

from bench.engine.models.shapes import SHAPES, random_model, shape
from runtime.kv.pages import in_one_piece
from runtime.nn.matrices.quantization import Quantization
from runtime.sampling.tokens import SampleSpec
from runtime.selftest.rates import GREEDY, prefill, random_prompt
from runtime.step.device import select_device, select_dtype
from runtime.step.job import StepJob
from runtime.step.step import Segment
from runtime.step.thread_executor import open_thread_executor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ThreadExecutor

DEPTH = 16
SETTLE_SECONDS = 0.5
"""Seconds until a program that was started runs."""


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep `count` processes running that never wait for anything."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def tokens_per_second(executor: ThreadExecutor[Transformer], threads: int | None, seconds: float) -> float:
    """Return the speed of one stream on `threads` threads, or on the number that the executor finds best."""
    if threads is not None:
        await executor.call(lambda: torch.set_num_threads(threads))
    model = executor.model
    pages = in_one_piece(model.context)
    token, position, started = 1, DEPTH, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds and position < model.context:
        sample = SampleSpec(GREEDY, position + 1, position - DEPTH)
        result = await executor.run_step(StepJob([Segment(0, position, [token], sample=sample, pages=pages)]))
        token, position = result.segments[0].tokens[0].token_id, position + 1
    return (position - DEPTH) / elapsed


async def measure(
    model: str, dtype: str, quantize: Quantization, loops: int, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return the tokens per second of each round, by how they were measured."""
    device = select_device("cpu")
    config, kind = shape(model), select_dtype(dtype, device, "bfloat16")
    all_threads = torch.get_num_threads()
    loaded = random_model(config, slots=1, context=4096, device=device, dtype=kind, quantize=quantize)
    rates: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        fixed = await stack.enter_async_context(open_thread_executor(lambda: loaded))
        adapted = await stack.enter_async_context(open_thread_executor(lambda: loaded, adapt_threads=True))
        await fixed.call(lambda: prefill(loaded, 0, random_prompt(loaded, DEPTH, 0)))
        ways = [(adapted, None, "adapted"), *((fixed, n, f"{n} threads") for n in sorted({1, all_threads}))]
        for _ in range(rounds):
            for count in (0, loops):
                with busy_loops(count):
                    for executor, threads, name in ways:
                        key = f"{name}, {'alone' if not count else f'beside {count}'}"
                        rates.setdefault(key, []).append(await tokens_per_second(executor, threads, seconds))
    return rates


@click.command(help=__doc__)
@click.option("--model", type=click.Choice([*SHAPES]), default="smollm2-135m", show_default=True)
@click.option("--dtype", default="auto", show_default=True)
@click.option("--quantize", type=click.Choice([form.value for form in Quantization]), default=Quantization.NONE.value)
@click.option("--loops", default=1, show_default=True, help="Busy programs.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each measurement.")
def main(model: str, dtype: str, quantize: str, loops: int, rounds: int, seconds: float) -> None:
    """Print the medians and ranges."""
    print(f"GOMP_SPINCOUNT={os.environ.get('GOMP_SPINCOUNT', 'not set: threads spin without end')}")
    form = Quantization(quantize)
    for name, rates in trio.run(measure, model, dtype, form, loops, rounds, seconds).items():
        print(f"{name}: {statistics.median(rates):.1f} tokens/s ({min(rates):.1f} to {max(rates):.1f})")


if __name__ == "__main__":
    main()
