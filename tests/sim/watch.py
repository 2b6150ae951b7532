"""An executor that keeps a record of every step, and has the invariants checked around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import trio
from trio.testing import MockClock

from actors.testing.chaos import UnreliableExecutor
from runtime.errors import DeviceHangs, DeviceLost
from runtime.step.executor import SimulatedExecutor
from runtime.testing.faults import Chaos, FaultPlan
from runtime.testing.unreliable import PlannedFault, UnreliableModel
from tests.sim.device import PlantedFault
from tests.sim.history import Truth
from tests.sim.invariants import Activity, Invariants
from tests.sim.kv_device import CursedKV

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.core.lease import Lease
    from actors.manager.slot_manager import SlotManager
    from runtime.step.executor import LayerHook
    from runtime.step.step import Segment, SegmentResult, StepResult
    from runtime.testing.simulated import SimulatedDrafter
    from tests.sim.device import FaultyModel


HANG_SECONDS = 1.0  # after which a step is given up
POISON = -1
PLANNED = (PlannedFault, PlantedFault, torch.OutOfMemoryError, DeviceLost)


@dataclass(frozen=True, slots=True)
class Run:
    """One segment of one step, and what became of it.  `computed` and `touched` as in `SegmentResult`."""

    owner: tuple[str, int]
    slot: int
    start: int
    rows: int
    computed: bool = False
    touched: bool = False
    finite: bool = True
    kept: int = 0  # rows that may be committed: not those of rejected drafts


@dataclass(frozen=True, slots=True)
class Step:
    """One step that ran to its end, or, with `failed`, raised."""

    started_at: float
    finished_at: float
    runs: tuple[Run, ...]
    failed: bool = False
    drafting: bool = False
    cursed: bool = False  # it raised because of KV from a tier

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


class Watch:
    """The simulated executor, with a record and the invariants around it.

    Args:
        model: the target.
        layer_seconds: how long a layer takes, from the rows in the step.
        chaos: what goes wrong with the device.
        truth: what the KV must be.
        drafter: of the target.
    """

    def __init__(
        self,
        model: FaultyModel,
        layer_seconds: Callable[[int], float],
        chaos: Chaos | None = None,
        truth: Truth | None = None,
        drafter: SimulatedDrafter | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.manager: SlotManager
        self.invariants: Invariants
        self.chaos = chaos or Chaos(FaultPlan())
        self.truth = truth or Truth()
        self.activity = Activity(self.clock)
        self.longest_layer = 0.0  # seconds
        self.jumped = 0.0  # seconds, in all
        self.recovery_seconds = 0.0  # until it is back
        self.after_step: Callable[[], object] = lambda: None  # called before the manager hears of the step's end
        self._model = model
        self._layer_seconds = layer_seconds
        self._late = 0.0  # seconds by which the layer that runs is slow
        self._drafter = drafter
        target = UnreliableModel(model, self.chaos, sleep=self._be_late)
        drafts = drafter and UnreliableModel(drafter, self.chaos, drafting=True, sleep=self._be_late)
        self.device = SimulatedExecutor(target, self._seconds, drafts)
        self.executor = UnreliableExecutor(self.device)
        self._running = False

    @property
    def violations(self) -> list[str]:
        """What did not hold; see `tests.sim.invariants`."""
        return self.invariants.violations

    @property
    def kv_is_exact(self) -> bool:
        """False while blocks that lie are meant to be in use."""
        return self.invariants.kv_is_exact

    @kv_is_exact.setter
    def kv_is_exact(self, value: bool) -> None:
        self.invariants.kv_is_exact = value

    def attach(self, manager: SlotManager) -> None:
        """Look at the queue and the grants of `manager` as well."""
        self.manager = manager
        self.invariants = Invariants(manager, self._model, self._drafter, self.truth, self.activity)
        grant, enqueue = manager.table.grant, manager.enqueue

        def watched_grant(owner: tuple[str, int], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as `grant` does
            slot = grant(owner, *args, **kwargs)
            if slot is not None:
                self.invariants.granted(next((lease for lease in manager._queue if lease.owner == owner), None), owner)
            return slot

        def watched_enqueue(leases: Sequence[Lease]) -> None:
            for lease in leases:
                self.invariants.joins(lease)
            try:
                enqueue(leases)
            except Exception:
                for lease in leases:
                    self.invariants.refused(lease)
                raise

        manager.table.grant = watched_grant  # type: ignore[method-assign]
        manager.enqueue = watched_enqueue  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Whatever else an executor can do."""
        return getattr(self.executor, name)

    @property
    def num_layers(self) -> int:
        """Of a step of the target."""
        return self._model.num_layers

    def clock(self) -> float:
        return trio.current_time()

    async def run_step(
        self, segments: Sequence[Segment], *, drafting: bool = False, layer_done: LayerHook | None = None
    ) -> StepResult:
        if self._running:
            self.invariants.violated("I2: two steps at a time")
        runs = tuple(self._run(segment) for segment in segments)
        self.invariants.step_begins(segments, drafting=drafting)
        started_at, self._running = self.clock(), True
        result = None
        try:
            with self.activity.going_on():
                result = await self._run_or_hang(segments, drafting=drafting, layer_done=layer_done)
            self.after_step()
        except Exception as error:
            if not isinstance(error, PLANNED):
                self.invariants.violated(f"I9: a step raised, and nobody had planned it: {error!r}")
            self.steps.append(self._failed(started_at, runs, error, drafting=drafting))
            self.longest_layer = max(self.longest_layer, self.clock() - started_at)
            raise
        finally:
            self._running = False
            self.invariants.step_ended(segments, result, drafting=drafting)
        ended = tuple(map(_ended, runs, segments, result.segments))
        self.steps.append(Step(started_at, self.clock(), ended, drafting=drafting))
        return result

    async def recover(self) -> None:
        """Nothing of the KV outlives a loss, and here it cannot."""
        with self.activity.going_on():
            await trio.sleep(self.recovery_seconds)
            await self.executor.recover()
        for model in filter(None, (self._model, self._drafter)):
            for rows in model.kv:
                rows[:] = [POISON] * len(rows)

    async def _run_or_hang(
        self, segments: Sequence[Segment], *, drafting: bool, layer_done: LayerHook | None
    ) -> StepResult:
        for _ in range(2):  # as a device thread's answer needs at the least: one to be told of, one to be heard
            await trio.lowlevel.cancel_shielded_checkpoint()
        try:
            return await self.executor.run_step(segments, drafting=drafting, layer_done=layer_done)
        except DeviceHangs:
            with trio.CancelScope(shield=True):
                await trio.sleep(HANG_SECONDS)
            raise

    def _failed(self, started_at: float, runs: tuple[Run, ...], error: Exception, *, drafting: bool) -> Step:
        cursed = isinstance(error, CursedKV)
        return Step(started_at, self.clock(), runs, failed=True, drafting=drafting, cursed=cursed)

    def check_kv(self) -> None:
        """I3, now."""
        self.invariants.check_i3()

    def jump(self, seconds: float) -> None:
        """Move virtual time ahead, in the middle of whatever is running."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(seconds)
        self.jumped += seconds
        self.activity.jump(seconds)
        self.longest_layer += seconds

    def _run(self, segment: Segment) -> Run:
        owners = [lease.owner for lease in self.manager._leases.values() if lease.mark is segment.mark]
        return Run(owners[0] if owners else ("nobody", -1), segment.slot, segment.start, len(segment.token_ids))

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


def _ended(run: Run, segment: Segment, result: SegmentResult) -> Run:
    rejected = len(segment.drafts) - max(0, len(result.tokens) - 1)
    return replace(
        run,
        computed=result.computed,
        touched=result.last_kernel_at is not None,
        finite=result.finite,
        kept=run.rows - rejected if result.computed else 0,
    )
