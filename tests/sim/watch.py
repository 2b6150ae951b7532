"""An executor that keeps a record of every step, and has the invariants checked around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import MockClock

from actors.chaos import UnreliableExecutor
from runtime.executor import SimulatedExecutor
from runtime.faults import Chaos, FaultPlan
from runtime.unreliable import UnreliableModel
from tests.sim.history import Truth
from tests.sim.invariants import Activity, Invariants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.lease import Lease
    from actors.slot_manager import SlotManager
    from runtime.step import Segment, StepResult
    from tests.sim.device import FaultyModel


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


@dataclass(frozen=True, slots=True)
class Step:
    """One step that ran to its end, or, with `failed`, raised."""

    started_at: float
    finished_at: float
    runs: tuple[Run, ...]
    failed: bool = False
    drafting: bool = False

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


class Watch:
    """The simulated executor, with a record and the invariants around it.

    Args:
        model: the target.
        layer_seconds: how long a layer takes, from the rows in the step.
        plan: what goes wrong with the device.
        truth: what the KV must be.
    """

    def __init__(
        self,
        model: FaultyModel,
        layer_seconds: Callable[[int], float],
        plan: FaultPlan | None = None,
        truth: Truth | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.manager: SlotManager
        self.invariants: Invariants
        self.chaos = Chaos(plan or FaultPlan())
        self.truth = truth or Truth()
        self.activity = Activity(self.clock)
        self.longest_layer = 0.0  # seconds
        self.after_step: Callable[[], object] = lambda: None  # called before the manager hears of the step's end
        self._model = model
        self._layer_seconds = layer_seconds
        self._late = 0.0  # seconds by which the layer that runs is slow
        unreliable = UnreliableModel(model, self.chaos, sleep=self._be_late)
        self.device = SimulatedExecutor(unreliable, self._seconds)
        self.executor = UnreliableExecutor(self.device, self.chaos)
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
        self.invariants = Invariants(manager, self._model, self.truth, self.activity)
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

    async def run_step(self, segments: Sequence[Segment], *, drafting: bool = False) -> StepResult:
        if self._running:
            self.invariants.violated("I2: two steps at a time")
        runs = tuple(self._run(segment) for segment in segments)
        self.invariants.step_begins(segments, drafting=drafting)
        started_at, self._running = self.clock(), True
        result = None
        try:
            with self.activity.going_on():
                result = await self.executor.run_step(segments, drafting=drafting)
            self.after_step()
        except Exception:
            self.steps.append(Step(started_at, self.clock(), runs, failed=True, drafting=drafting))
            raise
        finally:
            self._running = False
            self.invariants.step_ended(segments, result, drafting=drafting)
        ended = [
            Run(
                *(run.owner, run.slot, run.start, run.rows),
                computed=entry.computed,
                touched=entry.last_kernel_at is not None,
                finite=entry.finite,
            )
            for run, entry in zip(runs, result.segments, strict=True)
        ]
        self.steps.append(Step(started_at, self.clock(), tuple(ended), drafting=drafting))
        return result

    def check_kv(self) -> None:
        """I3, now."""
        self.invariants.check_i3()

    def jump(self, seconds: float) -> None:
        """Move virtual time ahead, in the middle of whatever is running."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.jump(seconds)
        self.longest_layer += seconds

    def _run(self, segment: Segment) -> Run:
        owners = [lease.owner for lease in self.manager._leases.values() if lease.mark is segment.mark]
        return Run(owners[0] if owners else ("nobody", -1), segment.slot, segment.start, len(segment.token_ids))

    def _be_late(self, seconds: float) -> None:
        self._late += seconds

    def _seconds(self, rows: int) -> float:
        """How long the layer takes that has just run, which the executor now lets pass."""
        seconds, self._late = self._layer_seconds(rows) + self._late, 0.0
        self.longest_layer = max(self.longest_layer, seconds)
        return seconds
