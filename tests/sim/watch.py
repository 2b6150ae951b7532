"""Everything that looks at an engine: a record of its steps, and the invariants, around an executor in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import trio

from actors.core.events import StepBegins, StepEnded, StepPart, StepRaised
from actors.core.observer import Observer
from actors.manager.slot_manager import SlotManager
from runtime.step.step import Segment, SegmentResult
from runtime.testing.faults import Chaos, FaultPlan
from runtime.testing.simulated import SimulatedDrafter
from tests.sim.books import Books
from tests.sim.device import FaultyModel
from tests.sim.executor import TimedExecutor
from tests.sim.groups.watch import GroupWatch
from tests.sim.history import Truth
from tests.sim.invariants import Invariants
from tests.sim.kv.device import CursedKV
from tests.sim.kv.places import Places
from tests.sim.kv.states import StateWatch
from tests.sim.order.activity import Activity
from tests.sim.order.bursts import BurstWatch
from tests.sim.order.fairness import Fairness
from tests.sim.preemption.watch import PreemptionWatch
from tests.sim.warm.watch import WarmWatch

MAX_VIOLATIONS = 20  # the first few say all there is to say


@dataclass(frozen=True, slots=True)
class Run:
    """One generation's rows in one step, and what became of them.

    Attributes:
        computed: all layers ran, and the result was finite.
        touched: a layer ran.
        kept: rows that may be committed: not those of rejected drafts, nor those that no state is behind.
    """

    owner: tuple[str, int]
    slot: int
    start: int
    rows: int
    computed: bool = False
    touched: bool = False
    finite: bool = True
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step that ran to its end, or, with `failed`, raised; `cursed` if that was because of KV from a tier."""

    started_at: float
    finished_at: float
    runs: tuple[Run, ...]
    failed: bool = False
    drafting: bool = False
    cursed: bool = False

    @property
    def rows(self) -> int:
        """Of all generations."""
        return sum(run.rows for run in self.runs)


class Record(Observer):
    """Every step, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._begun: StepBegins
        self._began_at: float
        self._segments: Sequence[Segment] = ()

    def look(self, segments: Sequence[Segment]) -> None:
        """Note what a step of the target has that begins on the device."""
        self._segments = segments

    def step_begins(self, event: StepBegins) -> None:
        """Note what it holds."""
        self._begun, self._began_at = event, trio.current_time()

    def step_ended(self, event: StepEnded) -> None:
        """Add it to the record."""
        left = {one.slot: [end for end, _ in one.next_states] for one in self._segments if one.drafts}
        runs = tuple(
            _ended(part, result, left.get(part.slot, ()))
            for part, result in zip(self._begun.parts, event.result.segments, strict=True)
        )
        self.steps.append(Step(self._began_at, trio.current_time(), runs, drafting=event.drafting))

    def step_raised(self, event: StepRaised) -> None:
        """Add it to the record."""
        runs = tuple(map(_run, self._begun.parts))
        cursed = isinstance(event.error, CursedKV)
        step = Step(self._began_at, trio.current_time(), runs, failed=True, drafting=event.drafting, cursed=cursed)
        self.steps.append(step)


def _run(part: StepPart) -> Run:
    return Run(part.key, part.slot, part.start, len(part.token_ids))


def _ended(part: StepPart, result: SegmentResult, left: Sequence[int]) -> Run:
    """Return what became of rows; `left` are the numbers of those behind which a verification leaves a state."""
    run, read = _run(part), max(0, len(result.tokens) - 1)  # drafts that stood, or what a burst drew and read
    stood = run.rows - part.drafts + read
    return replace(
        run,
        rows=max(run.rows, result.rows),
        computed=result.computed,
        touched=result.last_kernel_at is not None,
        finite=result.finite,
        kept=max((end for end in left if end <= stood), default=stood) if result.computed else 0,
    )


def looks(*each: Callable[[Sequence[Segment]], None]) -> Callable[[Sequence[Segment]], None]:
    """Return what looks at the segments of a step as all of these do."""

    def look(segments: Sequence[Segment]) -> None:
        for one in each:
            one(segments)

    return look


class Watch:
    """Watch of a simulation over an engine.

    Args:
        model: the target.
        layer_seconds: how long a layer takes, from the rows in the step.
        chaos: what goes wrong with the device.
        truth: what the KV must be.
        drafter: of the target.

    Attributes:
        device: the executor that the engine is to have.
        ageing: seconds that count as one level of priority.
        violations: what did not hold; see `tests.sim.invariants`.
        books, invariants, groups, bursts: there once an engine is observed.
    """

    def __init__(
        self,
        model: FaultyModel,
        layer_seconds: Callable[[int], float],
        chaos: Chaos | None = None,
        truth: Truth | None = None,
        drafter: SimulatedDrafter | None = None,
    ) -> None:
        self.model = model
        self.drafter = drafter
        self.chaos = chaos or Chaos(FaultPlan())
        self.truth = truth or Truth()
        self.device = self._open_device(layer_seconds)
        self.violations: list[str] = []
        self.ageing = 3.0
        self.activity = Activity(trio.current_time)
        self.record = Record()
        self.manager: SlotManager
        self.books: Books
        self.invariants: Invariants
        self.groups: GroupWatch
        self.bursts: BurstWatch

    def _open_device(self, layer_seconds: Callable[[int], float]) -> TimedExecutor:
        return TimedExecutor(self.model, self.drafter, layer_seconds, self.chaos)

    @property
    def steps(self) -> list[Step]:
        """All that ended, or raised."""
        return self.record.steps

    @property
    def kv_is_exact(self) -> bool:
        """False while blocks that lie are meant to be in use."""
        return self.invariants.kv_is_exact

    @kv_is_exact.setter
    def kv_is_exact(self, value: bool) -> None:
        self.invariants.kv_is_exact = value

    def violated(self, what: str) -> None:
        """Keep a violation, and do not raise: an observer that raises is told nothing more."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def look_at(self, manager: SlotManager) -> tuple[Observer, ...]:
        """Return all that are to observe the engine of `manager`, in this order."""
        self.manager = manager
        self.books = Books(manager.table, self.violated)
        self.invariants = Invariants(self)
        fairness = Fairness(manager, self.books, self.activity, trio.current_time, self.violated, self.ageing)
        self.groups = GroupWatch(manager, self.books, trio.current_time, self.violated)
        self.bursts = BurstWatch(manager, self.violated)
        states = StateWatch(self)
        self.device.target.step_begins = looks(self.record.look, states.look, self.bursts.look)
        others = Places(self), states, WarmWatch(self.books, self.violated), PreemptionWatch(self), self.bursts
        invariants = fairness, self.groups, self.invariants, *others
        self._observers: tuple[Observer, ...] = (self.activity, self.record, self.books, *invariants)
        return self._observers

    def check(self) -> None:
        """Raise AssertionError if anything did not hold, or somebody has stopped looking."""
        self.invariants.between()
        assert not self.violations, self.violations
        deaf = [observer for observer in self._observers if observer not in self.manager.observers]
        assert not deaf, f"{deaf} raised, and the log says what"
