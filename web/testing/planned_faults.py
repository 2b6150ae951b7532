"""A server to which the faults of a plan happen (`cede serve --chaos`); without a plan, everything stays as it is."""

from __future__ import annotations

import logging
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from actors.testing.chaos import JumpingClock, UnreliableExecutor, open_chaos
from runtime.kv.disk.blocks import DiskBlocks
from runtime.testing.faults import Chaos
from runtime.testing.unreliable import UnreliableBlocks, UnreliableModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from actors.engine import Engine
    from runtime.step.executor import Executor
    from runtime.step.step import StepModel
    from runtime.testing.faults import FaultPlan

logger = logging.getLogger("cede.chaos")


class PlannedFaults:
    """Puts what fails as planned in place of what `run_server` opens."""

    def __init__(self, plan: FaultPlan | None) -> None:
        self._chaos = None if plan is None else Chaos(plan)
        self._executor: UnreliableExecutor | None = None
        if plan is not None:
            logger.warning("chaos: this server fails as planned, %d ways", len(plan.fault))

    def model(self, load: Callable[[], Any]) -> Callable[[], Any]:
        """How the target is loaded."""
        chaos = self._chaos
        return load if chaos is None else lambda: UnreliableModel(load(), chaos)

    def drafter(self, load: Callable[[Any], StepModel[Any] | None]) -> Callable[[Any], StepModel[Any] | None]:
        """How the drafter is loaded for it."""
        chaos = self._chaos
        if chaos is None:
            return load

        def load_unreliable(target: UnreliableModel[Any]) -> StepModel[Any] | None:
            drafter = load(target.model)
            return None if drafter is None else UnreliableModel(drafter, chaos, drafting=True)

        return load_unreliable

    @property
    def open_blocks(self) -> Callable[..., DiskBlocks]:
        """What the disk tier keeps its files in."""
        return DiskBlocks if self._chaos is None else partial(UnreliableBlocks, chaos=self._chaos)

    def executor(self, executor: Executor) -> Executor:
        """What the engine runs its steps on."""
        if self._chaos is None:
            return executor
        self._executor = UnreliableExecutor(executor, self._chaos)
        return self._executor

    @asynccontextmanager
    async def happen_to(self, engine: Engine) -> AsyncIterator[None]:
        """While the scope lasts, what is left of the plan happens."""
        if self._executor is None:
            yield
            return
        clock = trio.lowlevel.current_clock()
        jump = clock.jump if isinstance(clock, JumpingClock) else _stand_still
        shut_down = partial(signal.raise_signal, signal.SIGTERM)
        async with open_chaos(engine, self._executor, jump=jump, shut_down=shut_down):
            yield


def _stand_still(seconds: float) -> None:
    logger.error("chaos: this clock cannot jump, by %g s or at all", seconds)
