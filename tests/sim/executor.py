"""The executor of a simulation: its layers take virtual time, it can hang, and no KV outlives a loss of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.testing import MockClock

from actors.testing.chaos import UnreliableExecutor
from runtime.errors import DeviceHangs
from runtime.step.executor import SimulatedExecutor
from runtime.testing.simulated import SimulatedBatch
from runtime.testing.unreliable import UnreliableModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import outcome

    from runtime.step.executor import Executor
    from runtime.step.job import StepJob
    from runtime.step.step import Segment, StepResult
    from runtime.step.transfer import KVData, Transfer
    from runtime.testing.faults import Chaos
    from runtime.testing.simulated import SimulatedDrafter
    from tests.sim.device import FaultyModel

HANG_SECONDS = 1.0  # after which a step is given up
POISON = -1


class WatchedModel(UnreliableModel[SimulatedBatch]):
    """A model that says when a step begins on the device, one within a burst too.

    Attributes:
        step_begins: is told of its segments.
    """

    step_begins: Callable[[Sequence[Segment]], None] = staticmethod(lambda segments: None)

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Say so, and begin it."""
        self.step_begins(segments)
        return super().begin(segments)


class TimedExecutor:
    """Runs the steps of a stand-in model with a plan's faults, in virtual time.

    Args:
        model: the target.
        drafter: of the target.
        layer_seconds: how long a layer takes, from the rows in the step.
        chaos: what goes wrong with the device.

    Attributes:
        inner: what runs the steps; a test may put another around it.
        longest_layer: seconds that a layer took, or a step that failed.
        jumped: seconds by which the clock has jumped, in all.
        recovery_seconds: until the device is back after a loss.
    """

    def __init__(
        self,
        model: FaultyModel,
        drafter: SimulatedDrafter | None,
        layer_seconds: Callable[[int], float],
        chaos: Chaos,
    ) -> None:
        self.longest_layer = 0.0
        self.jumped = 0.0
        self.recovery_seconds = 0.0
        self.target = WatchedModel(model, chaos, sleep=self._be_late)
        self.drafter = drafter and UnreliableModel(drafter, chaos, drafting=True, sleep=self._be_late)
        self.inner: Executor = UnreliableExecutor(SimulatedExecutor(self.target, self._seconds, self.drafter))
        self._kv = [model.kv, model.buffers, *model.windows, *([] if drafter is None else [drafter.kv])]
        self._layer_seconds = layer_seconds
        self._late = 0.0  # seconds by which the layer that runs is slow

    def wall_clock(self) -> float:
        """Now, in seconds since the epoch, as the inner executor has it."""
        return self.inner.wall_clock()

    def clock(self) -> float:
        """Virtual time."""
        return trio.current_time()

    async def run_step(self, job: StepJob) -> StepResult:
        """Run one step, which is given up if it hangs."""
        started_at = self.clock()
        await trio.lowlevel.cancel_shielded_checkpoint()
        try:
            result = await self.inner.run_step(job)
        except Exception as error:
            if isinstance(error, DeviceHangs):
                with trio.CancelScope(shield=True):
                    await trio.sleep(HANG_SECONDS)
            self.longest_layer = max(self.longest_layer, self.clock() - started_at)
            raise
        # A device thread is heard of a moment later, in which others run; what follows has begun by then.
        await trio.lowlevel.cancel_shielded_checkpoint()
        return result

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV."""
        return await self.inner.transfer(transfers)

    async def recover(self) -> None:
        """Come back after a while, without any KV."""
        await trio.sleep(self.recovery_seconds)
        await self.inner.recover()
        for rows in self._kv:
            rows[:] = [POISON] * len(rows)

    def jump(self, seconds: float) -> None:
        """Move virtual time ahead, in the middle of whatever is running."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(seconds)
        self.jumped += seconds
        self.longest_layer += seconds

    def _be_late(self, seconds: float) -> None:
        self._late += seconds

    def _seconds(self, rows: int) -> float:
        """Return how long the layer takes that has just run, which the executor now lets pass."""
        late, self._late = self._late, 0.0
        if late >= HANG_SECONDS:
            raise DeviceHangs("no layer of a step has ended for long")
        seconds = self._layer_seconds(rows) + late
        self.longest_layer = max(self.longest_layer, seconds)
        return seconds
