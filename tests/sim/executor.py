"""The executor of a simulation: its layers take virtual time, it can hang, and no KV outlives a loss of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.testing import MockClock

from actors.core.observer import Observer
from actors.testing.chaos import UnreliableExecutor
from runtime.errors import DeviceHangs
from runtime.step.executor import SimulatedExecutor
from runtime.testing.unreliable import UnreliableModel
from tests.sim.fairness import Activity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import outcome

    from actors.core.events import (
        Granted,
        Parked,
        Released,
        Resumed,
        StepBegins,
        StepEnded,
        StepPart,
        TransferBegins,
    )
    from runtime.step.executor import Executor, LayerHook
    from runtime.step.follow_up import FollowUp
    from runtime.step.step import Segment, StepResult
    from runtime.step.transfer import KVData, Transfer
    from runtime.testing.faults import Chaos
    from runtime.testing.simulated import SimulatedDrafter
    from tests.sim.device import FaultyModel

HANG_SECONDS = 1.0  # after which a step is given up
POISON = -1


class TimedExecutor:
    """Runs the steps of a stand-in model with a plan's faults, in virtual time.

    Args:
        model: the target.
        drafter: of the target.
        layer_seconds: how long a layer takes, from the rows in the step.
        chaos: what goes wrong with the device.

    Attributes:
        inner: what runs the steps; a test may put another around it.
        activity: of this device.
        ahead: the step that runs, or has run, and was neither adopted nor withdrawn.
        adopted: the segments of the newest step, if it was adopted.
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
        self.activity = Activity(trio.current_time)
        self.ahead: FollowUp | None = None
        self.adopted: Sequence[Segment] = ()
        self.longest_layer = 0.0
        self.jumped = 0.0
        self.recovery_seconds = 0.0
        self.target = UnreliableModel(model, chaos, sleep=self._be_late)
        self.drafter = drafter and UnreliableModel(drafter, chaos, drafting=True, sleep=self._be_late)
        self.inner: Executor = UnreliableExecutor(SimulatedExecutor(self.target, self._seconds, self.drafter))
        self._kv = [model.kv, *model.windows, *([] if drafter is None else [drafter.kv])]
        self._layer_seconds = layer_seconds
        self._late = 0.0  # seconds by which the layer that runs is slow

    def clock(self) -> float:
        """Virtual time."""
        return trio.current_time()

    async def run_step(
        self,
        segments: Sequence[Segment],
        *,
        drafting: bool = False,
        layer_done: LayerHook | None = None,
        follow_up: FollowUp | None = None,
    ) -> StepResult:
        """Run one step, which is given up if it hangs."""
        started_at = self.clock()
        self.adopted = segments if self.ahead is not None and segments is self.ahead.segments else ()
        self.ahead = None
        for _ in range(2):  # as a device thread's answer needs at the least: one to be told of, one to be heard
            await trio.lowlevel.cancel_shielded_checkpoint()
        try:
            result = await self.inner.run_step(segments, drafting=drafting, layer_done=layer_done, follow_up=follow_up)
        except Exception as error:
            await self._give_up(error, started_at)
            raise
        self.ahead = follow_up if follow_up is not None and follow_up.is_begun else None
        return result

    async def retract(self) -> StepResult | None:
        """Withdraw the step that runs ahead, which is given up if it hangs."""
        self.activity.begin("step ahead")
        try:
            return await self.inner.retract()
        except Exception as error:
            await self._give_up(error, self.clock())
            raise
        finally:
            self.ahead = None
            self.activity.end("step ahead")

    async def transfer(self, transfers: Sequence[Transfer]) -> list[outcome.Outcome[KVData | None]]:
        """Move KV."""
        return await self.inner.transfer(transfers)

    async def recover(self) -> None:
        """Come back after a while, without any KV."""
        await trio.sleep(self.recovery_seconds)
        await self.inner.recover()
        for rows in self._kv:
            rows[:] = [POISON] * len(rows)

    async def _give_up(self, error: Exception, since: float) -> None:
        """Let the time pass in which a device is waited for that hangs, and note how long all of it was."""
        if isinstance(error, DeviceHangs):
            with trio.CancelScope(shield=True):
                await trio.sleep(HANG_SECONDS)
        self.longest_layer = max(self.longest_layer, self.clock() - since)

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
        """How long the layer takes that has just run, which the executor now lets pass."""
        late, self._late = self._late, 0.0
        if late >= HANG_SECONDS:
            raise DeviceHangs("no layer of a step has ended for long")
        seconds = self._layer_seconds(rows) + late
        self.longest_layer = max(self.longest_layer, seconds)
        return seconds


class AheadWatch(Observer):
    """Checks I35: what runs ahead is what is planned, or comes to nothing; and nobody's slot changes hands meanwhile.

    Args:
        device: of the engine.
        violated: told what does not hold.
    """

    def __init__(self, device: TimedExecutor, violated: Callable[[str], None]) -> None:
        self._device = device
        self._violated = violated
        self._parts: Sequence[StepPart] = ()

    def step_begins(self, event: StepBegins) -> None:
        """Note what was planned."""
        self._parts = event.parts

    def step_ended(self, event: StepEnded) -> None:
        """Check that no other rows ran than those that were planned."""
        planned = [(part.slot, part.start, part.token_ids) for part in self._parts]
        ran = [(segment.slot, segment.start, tuple(segment.token_ids)) for segment in self._device.adopted]
        if ran and ran != planned:
            self._violated(f"I35: {planned} was planned, and {ran} adopted for it")

    def granted(self, event: Granted | Resumed) -> None:
        """Check that no step names the slot."""
        self._check(event.slot)

    def resumed(self, event: Resumed) -> None:
        """Check the same."""
        self._check(event.slot)

    def parked(self, event: Parked) -> None:
        """Check the same."""
        self._check(event.slot)

    def released(self, event: Released) -> None:
        """Check the same."""
        self._check(event.slot)

    def transfer_begins(self, event: TransferBegins) -> None:
        """Check that no KV is moved beside a step."""
        if self._device.ahead is not None:
            self._violated("I35: KV is to be moved, and a step runs ahead")

    def _check(self, slot: int | None) -> None:
        ahead = () if self._device.ahead is None else self._device.ahead.segments
        if any(segment.slot == slot for segment in ahead):
            self._violated(f"I35: slot {slot} changes hands, and the step that runs ahead names it")
