"""What a device does in a second: bytes read, multiplications, and steps in a bare loop without an engine.

To be called on the device thread.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F

from runtime.sampling import SamplingParams
from runtime.step import SampleSpec, Segment, run_step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.model import Transformer
    from runtime.step import StepResult

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


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second, the best of several sizes of product."""
    rates = []
    for rows, inputs, outputs in PRODUCTS:
        x = torch.randn(rows, inputs, device=device).to(dtype)
        weight = torch.randn(outputs, inputs, device=device).to(dtype)
        seconds = best_seconds(lambda x=x, weight=weight: F.linear(x, weight), device)  # type: ignore[misc]
        rates.append(2 * rows * inputs * outputs / seconds)
    return max(rates)


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


# --- steps --------------------------------------------------------------------------------------------------------


def random_prompt(model: Transformer, length: int, seed: int) -> tuple[int, ...]:
    """Token ids that no other seed's prompt shares a prefix with."""
    return tuple(random.Random(seed).choices(range(model.config.vocab_size), k=length))


def step(model: Transformer, segments: Sequence[Segment]) -> StepResult:
    """One step from begin to end."""
    running = run_step(model, segments, time.perf_counter)
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
    return (results[-1].finished_at - results[0].finished_at) / (len(results) - 1)
