"""Opens a model on a device thread, without an engine.  `runtime.selftest.rates` runs steps on it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from bench.engine.models.bare_model import BareModel
from bench.engine.models.shapes import SHAPES, random_model, shape
from runtime.loading.load import as_loaded, describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.nn.matrices.quantization import Quantization
from runtime.step.device import select_device, select_dtype
from runtime.step.thread_executor import open_thread_executor
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runtime.loading.served import ServedModel
    from runtime.nn.model import Transformer
    from runtime.step.thread_executor import ThreadExecutor

EMBEDDED = "embedded"
MODELS = f"{', '.join(SHAPES)}: random weights; {EMBEDDED}; or what `cede serve --model` takes"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model to load, and the size of its KV cache.

    Attributes:
        model: what `MODELS` says.
        slots: of the KV cache.
        context: tokens of a slot.
        dtype: a name, or `auto`.
        device: a name, or `auto`.
        quantize: how to quantise the weights.
        native: `off` to leave few rows to PyTorch's operations.
        deterministic: `on` for kernels that compute all rows.
    """

    model: str
    slots: int
    context: int
    dtype: str = "auto"
    device: str = "auto"
    quantize: Quantization = Quantization.AUTO
    native: str = "auto"
    deterministic: str = "off"


@asynccontextmanager
async def open_model(spec: ModelSpec) -> AsyncIterator[tuple[ThreadExecutor[Transformer], ServedModel]]:
    """Open a model as it is served, or a shape with random weights, on a device thread."""
    if spec.model not in SHAPES:
        path = resolve_model(None if spec.model == EMBEDDED else spec.model)
        sizes, kept = (spec.slots, spec.context, spec.device, spec.dtype), spec.quantize
        options = LoadOptions(path, *sizes, kept, native=spec.native, deterministic=spec.deterministic)
        served, checkpoint = describe_model(options, spec.model)
        async with open_thread_executor(partial(load_model, options, checkpoint)) as executor:
            yield executor, as_loaded(served, executor.model)
        return
    config, device = shape(spec.model), select_device(spec.device)
    dtype = select_dtype(spec.dtype, device, "bfloat16")
    load = partial(
        random_model,
        config,
        slots=spec.slots,
        context=spec.context,
        device=device,
        dtype=dtype,
        quantize=spec.quantize,
        native=spec.native,
        deterministic=spec.deterministic == "on",
    )
    async with open_thread_executor(load) as executor:
        yield executor, cast("ServedModel", BareModel(config, spec.context))
