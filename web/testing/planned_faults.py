"""A server to which the faults of a plan happen: `cede serve --chaos`."""

from __future__ import annotations

import logging
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.testing.chaos import JumpingClock, open_chaos
from runtime.common.units import counted
from runtime.testing.faults import Chaos
from runtime.testing.unreliable import UnreliableBlocks, UnreliableModel
from web.process.hooks import ServerHooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actors.engine import Engine
    from runtime.step.step import StepModel
    from runtime.testing.faults import FaultPlan

logger = logging.getLogger("cede.chaos")


class PlannedFaults(ServerHooks):
    """Puts what fails as planned in place of what `run_server` opens."""

    def __init__(self, plan: FaultPlan) -> None:
        self._chaos = Chaos(plan)
        self._clock = self.clock = JumpingClock()
        self.disk_blocks = partial(UnreliableBlocks, chaos=self._chaos)
        logger.warning("chaos: this server fails as planned, in %s", counted(len(plan.fault), "way"))

    def model(self, model: StepModel[Any], *, drafting: bool) -> StepModel[Any]:
        """Return the model with the plan's faults in its steps."""
        return UnreliableModel(model, self._chaos, drafting=drafting)

    @asynccontextmanager
    async def attend(self, engine: Engine) -> AsyncIterator[None]:
        """Let the rest of the plan happen while the engine serves."""
        shut_down = partial(signal.raise_signal, signal.SIGTERM)
        async with open_chaos(engine, self._chaos, jump=self._clock.jump, shut_down=shut_down):
            yield
