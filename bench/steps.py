"""The device's side alone: a model, and its steps in a bare loop without an engine."""

from __future__ import annotations

import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from bench.cache import BareModel
from bench.shapes import SHAPES, random_model, shape
from runtime.checkpoint import resolve_model
from runtime.device import select_device, select_dtype
from runtime.executor import open_thread_executor
from runtime.loading import LoadOptions, describe_model, load_model
from runtime.sampling import SamplingParams
from runtime.step import SampleSpec, Segment, run_step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runtime.executor import ThreadExecutor
    from runtime.model import Transformer
    from runtime.served import ServedModel
    from runtime.step import StepResult

EMBEDDED = "embedded"
MODELS = (*SHAPES, EMBEDDED)
GREEDY = SamplingParams(temperature=0, seed=0)
CHUNK = 512  # prompt rows in a step


@dataclass(frozen=True, slots=True)
class Room:
    """What to load, with how much KV.  `dtype` and `device` are names, or `auto`."""

    model: str
    slots: int
    context: int
    dtype: str = "auto"
    device: str = "auto"


@asynccontextmanager
async def open_model(room: Room) -> AsyncIterator[tuple[ThreadExecutor[Transformer], ServedModel]]:
    """The embedded model as it is served, or a shape with random weights, on a device thread."""
    if room.model == EMBEDDED:
        options = LoadOptions(resolve_model(None), room.slots, room.context, room.device, room.dtype)
        served, config = describe_model(options, EMBEDDED)
        async with open_thread_executor(partial(load_model, options, config)) as executor:
            yield executor, served
        return
    config, device = shape(room.model), select_device(room.device)
    dtype = select_dtype(room.dtype, device, "bfloat16")
    load = partial(random_model, config, slots=room.slots, context=room.context, device=device, dtype=dtype)
    async with open_thread_executor(load) as executor:
        yield executor, cast("ServedModel", BareModel(config, room.context))


def random_prompt(model: Transformer, length: int, seed: int) -> tuple[int, ...]:
    """Token ids that no other seed's prompt shares a prefix with."""
    return tuple(random.Random(seed).choices(range(model.config.vocab_size), k=length))


def step(model: Transformer, segments: Sequence[Segment]) -> StepResult:
    """One step from begin to end.  To be called on the device thread."""
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
