"""The device's side alone: a model on its thread, without an engine; `runtime.selftest.rates` runs steps on it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from bench.engine.cache import BareModel
from bench.engine.shapes import SHAPES, random_model, shape
from runtime.checkpoint.locate import resolve_model
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.step.device import select_device, select_dtype
from runtime.step.thread_executor import open_thread_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ThreadExecutor

EMBEDDED = "embedded"
MODELS = (*SHAPES, EMBEDDED)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What to load, with how much KV.  `dtype` and `device` are names, or `auto`."""

    model: str
    slots: int
    context: int
    dtype: str = "auto"
    device: str = "auto"


@asynccontextmanager
async def open_model(room: ModelSpec) -> AsyncIterator[tuple[ThreadExecutor[Transformer], ServedModel]]:
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
