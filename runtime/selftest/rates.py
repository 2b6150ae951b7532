"""Rates of a device: bytes read, multiplications, and steps in a bare loop without an engine.

To be called on the device thread.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

import torch
import torch.nn.functional as F

from runtime.kv.pages import PageTable, in_one_piece, pages_for
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.selftest.states import with_states
from runtime.step.step import Segment, run_step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.nn.layers.batch import Batch
    from runtime.nn.model import Transformer
    from runtime.selftest.findings import Figures
    from runtime.step.shortcuts import Ahead
    from runtime.step.step import StepResult

READ_BYTES = 2**30  # far more than any cache holds
PRODUCTS = ((512, 1024, 6144), (1024, 2048, 2048), (2048, 1024, 3072))  # rows, in, out: a layer's sizes
REPEATS = 5

GREEDY = SamplingParams(temperature=0, seed=0)
CHUNK = 512  # prompt rows in a step


# --- the device ---------------------------------------------------------------------------------------------------


def best_seconds(run: Callable[[], object], device: torch.device) -> float:
    """The shortest of several runs."""
    run()
    times = []
    for _ in range(REPEATS):
        _synchronise(device)
        started = time.perf_counter()
        run()
        _synchronise(device)
        times.append(time.perf_counter() - started)
    return min(times)


def read_bandwidth(device: torch.device, nbytes: int = READ_BYTES) -> float:
    """Bytes per second of a sum, or of a matrix times a vector if that is faster; no cache holds them."""
    data = torch.ones(nbytes // 4, device=device)
    matrix, vector = data.view(-1, 4096), torch.ones(4096, device=device)
    return nbytes / min(best_seconds(data.sum, device), best_seconds(lambda: matrix @ vector, device))


def matrix_rate(device: torch.device, dtype: torch.dtype, products: Sequence[tuple[int, int, int]] = PRODUCTS) -> float:
    """Floating-point operations per second, the best of several sizes of product."""
    rates = []
    for rows, inputs, outputs in products:
        x = torch.randn(rows, inputs, device=device).to(dtype)
        weight = torch.randn(outputs, inputs, device=device).to(dtype)
        seconds = best_seconds(lambda x=x, weight=weight: F.linear(x, weight), device)  # type: ignore[misc]
        rates.append(2 * rows * inputs * outputs / seconds)
    return max(rates)


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def threads() -> int:
    """Return the threads of one operation on the CPU, if it is called on this thread."""
    return torch.get_num_threads()


# --- steps --------------------------------------------------------------------------------------------------------


def random_prompt(model: Transformer, length: int, seed: int) -> tuple[int, ...]:
    """Token ids that no other seed's prompt shares a prefix with."""
    return tuple(random.Random(seed).choices(range(model.config.vocab_size), k=length))


class HasContext(Protocol):
    """A model whose sequences have at most so many tokens."""

    context: int


def placed(model: HasContext, segments: Sequence[Segment]) -> list[Segment]:
    """Return the same segments, each slot with pages of its own, for all of the context."""
    return [replace(segment, pages=slot_pages(model, segment.slot)) for segment in segments]


def slot_pages(model: HasContext, slot: int) -> PageTable:
    """Return the pages of a slot, where each has as many as the context takes."""
    return in_one_piece(model.context, slot * pages_for(model.context))


def step(model: Transformer, segments: Sequence[Segment], ahead: Ahead[Batch] | None = None) -> StepResult:
    """One step from begin to end; `ahead` as of `run_step`."""
    segments = with_states(model.buffers, placed(model, segments))
    running = run_step(model, segments, time.perf_counter, model, ahead=ahead)
    while True:
        try:
            next(running)
        except StopIteration as stop:
            return cast("StepResult", stop.value)


def prefill(model: Transformer, slot: int, prompt: Sequence[int], chunk: int = CHUNK) -> list[StepResult]:
    """Read a prompt into an empty slot, and draw no token."""
    starts = range(0, len(prompt), chunk)
    return [step(model, [Segment(slot, start, prompt[start : start + chunk])]) for start in starts]


def decode(model: Transformer, streams: int, depth: int, tokens: int) -> list[StepResult]:
    """Decode greedily in slots 0 to `streams` - 1, from position `depth` on, in `tokens` steps."""
    last = [1] * streams
    results = []
    for position in range(depth, depth + tokens):
        sample = SampleSpec(GREEDY, position + 1, position - depth)
        segments = [Segment(slot, position, [token], sample=sample) for slot, token in enumerate(last)]
        results.append(step(model, segments))
        last = [segment.tokens[0].token_id for segment in results[-1].segments]
    return results


def seconds_per_step(results: Sequence[StepResult]) -> float:
    """From the end of the first to the end of the last one: what lies between them counts."""
    return (results[-1].finished_at - results[0].finished_at) / sum(result.steps for result in results[1:])


# --- figures for a report -----------------------------------------------------------------------------------------


def measure_bandwidth(model: Transformer, nbytes: int) -> Figures:
    """Measure that of the model's device."""
    return {"gigabytes_per_second": read_bandwidth(model.weights.embedding.device, nbytes) / 1e9, "threads": threads()}


def measure_products(model: Transformer) -> Figures:
    """On the model's device, in its dtype."""
    rate = matrix_rate(model.weights.embedding.device, model.kv.dtype, PRODUCTS[:1])
    return {"gigaflops": rate / 1e9, "threads": threads()}


def measure_decode(model: Transformer, streams: int, depth: int, steps: int) -> Figures:
    """Measure that of so many sequences, `depth` tokens long to begin with."""
    for slot in range(streams):
        prefill(model, slot, random_prompt(model, depth, slot))
    seconds = seconds_per_step(decode(model, streams, depth, steps))
    return {"tokens_per_second": streams / seconds, "ms_per_step": 1e3 * seconds}


def measure_prefill(model: Transformer, tokens: int) -> Figures:
    """The better of two, a prompt of so many tokens."""
    rounds = [prefill(model, 0, random_prompt(model, tokens, seed)) for seed in range(2)]
    seconds = min(results[-1].finished_at - results[0].started_at for results in rounds)
    return {"tokens_per_second": tokens / seconds, "tokens": tokens}
