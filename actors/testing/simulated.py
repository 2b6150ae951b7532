"""A stand-in model behind the engine that serves, in virtual time: where a fault-injection test begins."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.config import EngineConfig
from actors.engine import open_engine
from actors.model import OpenModel
from actors.testing.chaos import open_chaos
from runtime.step.executor import SimulatedExecutor
from runtime.testing.simulated import stand_in
from runtime.testing.unreliable import UnreliableModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runtime.testing.faults import Chaos
    from runtime.testing.simulated import SimulatedModel


@asynccontextmanager
async def open_simulated(
    model: SimulatedModel,
    chaos: Chaos | None = None,
    config: EngineConfig | None = None,
    *,
    layer_seconds: float = 0.001,
) -> AsyncIterator[OpenModel]:
    """Open an engine over a stand-in for a model, whose steps take virtual time: under `trio.testing.MockClock`.

    Args:
        model: the stand-in; its slots are the engine's.
        chaos: what goes wrong on the device and around it; None for nothing.
        config: how the engine shares its device.
        layer_seconds: of a layer.
    """
    device = model if chaos is None else UnreliableModel(model, chaos)
    executor = SimulatedExecutor(device, lambda rows: layer_seconds)
    config = replace(config or EngineConfig(), slots=model.slots)
    async with (
        open_engine(executor, stand_in(model), config) as engine,
        nullcontext() if chaos is None else open_chaos(engine, chaos),
    ):
        yield OpenModel(engine)
