"""Opens a model on a device thread, without an engine.  `runtime.selftest.rates` runs steps on it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from bench.engine.models.bare_model import BareModel
from bench.engine.models.shapes import SHAPES, random_model, shape
from runtime.loading.load import describe_model, load_model
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
MODELS = (*SHAPES, EMBEDDED)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model to load, and the size of its KV cache.

    Attributes:
        model: one of `MODELS`.
        slots: of the KV cache.
        context: tokens of a slot.
        dtype: a name, or `auto`.
        device: a name, or `auto`.
        quantize: how to quantise the weights of a shape.
        native: `off` to leave few rows to PyTorch's operations.
        deterministic: `on` for kernels that compute all rows.
    """

    model: str
    slots: int
    context: int
    dtype: str = "auto"
    device: str = "auto"
    quantize: Quantization = Quantization.NONE
    native: str = "auto"
    deterministic: str = "off"


@asynccontextmanager
async def open_model(spec: ModelSpec) -> AsyncIterator[tuple[ThreadExecutor[Transformer], ServedModel]]:
    """Open the embedded model as it is served, or a shape with random weights, on a device thread."""
    if spec.model == EMBEDDED:
        sizes = spec.slots, spec.context, spec.device, spec.dtype
        options = LoadOptions(resolve_model(None), *sizes, native=spec.native, deterministic=spec.deterministic)
        served, checkpoint = describe_model(options, EMBEDDED)
        async with open_thread_executor(partial(load_model, options, checkpoint)) as executor:
            yield executor, served
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
