"""The slot manager's steps on the device, and what they cost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import outcome

from actors.core.events import LayerDone, StepBegins, StepEnded, StepPart, StepRaised
from actors.core.life import State
from runtime.errors import DeviceLost
from runtime.step.job import StepJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.observer import Observers
    from actors.scheduling.costs import StepCosts
    from actors.scheduling.step_planner import Planned
    from runtime.step.executor import Executor
    from runtime.step.job import Burst, LayerHook
    from runtime.step.step import StepResult


@dataclass(slots=True)
class StepCounts:
    """Counts of what ran since the start; all but `draft_steps` and `draft_rows` on the target."""

    steps: int = 0
    failed: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    draft_steps: int = 0
    draft_rows: int = 0
    verify_steps: int = 0  # pieces of work, of which one step may hold several
    drafted: int = 0
    accepted: int = 0
    last_seconds: float | None = None  # of the newest step
    last_single: int = 0  # of its rows, those that somebody's next token waited for


class StepRunner:
    """Part of the slot manager: called by its task and by nobody else.

    Args:
        executor, observers: the manager's; the executor is its `Device`.
        counts: of the steps.
        costs: learns what steps take.
    """

    def __init__(self, executor: Executor, counts: StepCounts, costs: StepCosts, observers: Observers) -> None:
        self._executor = executor
        self._observers = observers
        self._counts = counts
        self._costs = costs
        self._begun = {False: 0, True: 0}  # steps, by `drafting`
        self._following: StepJob | None = None  # what has begun, and was not given yet

    async def run(self, step: Sequence[Planned], burst: Burst | None) -> outcome.Outcome[StepResult]:
        """Run a step, or those of a burst that are told of at a time: what they gave, or what one of them raised.

        Where the result names what follows, that has begun, and is to be given here next.

        Args:
            step: the rows.
            burst: how far others may follow them; that of the first of them goes for all.

        Raises:
            DeviceLost: no step can run now.
        """
        for planned in step:
            planned.begin()
        drafting = step[0].work.phase is State.DRAFT
        asked_at = self._executor.clock()
        number = self._tell_begin(step, drafting)
        begun, self._following = self._following, None
        job = begun or self._job(step, number, burst)
        try:
            result = await self._executor.run_step(job)
        except Exception as error:
            if self._observers.step_raised:
                self._observers.tell(self._observers.step_raised, StepRaised(number, drafting, error))
            if isinstance(error, DeviceLost):
                raise
            self._counts.failed += 1
            return outcome.Error(error)
        self._begun[drafting] += result.steps - 1
        if self._observers.step_ended:
            self._observers.tell(self._observers.step_ended, StepEnded(number, drafting, result))
        self._following = result.following
        elapsed = self._executor.clock() - asked_at if begun is None else result.finished_at - result.started_at
        self._observe(step, result, elapsed)
        return outcome.Value(result)

    def _job(self, step: Sequence[Planned], number: int, burst: Burst | None) -> StepJob:
        drafting = step[0].work.phase is State.DRAFT
        layer_done = self._layer_hook(number, drafting) if self._observers.layer_done else None
        return StepJob([planned.segment for planned in step], drafting, layer_done, burst)

    def _tell_begin(self, step: Sequence[Planned], drafting: bool) -> int:
        """Say what the step runs; returns its number."""
        self._begun[drafting] += 1
        if self._observers.step_begins:
            event = StepBegins(self._begun[drafting], drafting, tuple(_part(planned) for planned in step))
            self._observers.tell(self._observers.step_begins, event)
        return self._begun[drafting]

    def _layer_hook(self, number: int, drafting: bool) -> LayerHook:
        """Return what the executor calls at each layer's end of that step, and of those that follow on it."""
        layers: defaultdict[int, count[int]] = defaultdict(count)

        def layer_done(before: int) -> None:
            self._observers.tell(self._observers.layer_done, LayerDone(number + before, drafting, next(layers[before])))

        return layer_done

    def _observe(self, step: Sequence[Planned], result: StepResult, elapsed: float) -> None:
        """Count, and learn what steps cost: the way to the device and back included, where there was one."""
        chunks = [planned.segment for planned in step if planned.work.is_bulk]
        bulk = sum(len(chunk.token_ids) for chunk in chunks)
        single = sum(len(planned.segment.token_ids) for planned in step) - bulk
        drafting = step[0].work.phase is State.DRAFT
        if drafting:
            self._counts.draft_steps += 1
            self._counts.draft_rows += single + bulk
        else:
            self._counts.steps += result.steps
            self._counts.prefill_tokens += bulk
            self._counts.decode_tokens += single * result.steps
            self._counts.last_seconds, self._counts.last_single = elapsed / result.steps, single
        steps = result.steps
        if not all(one.computed and (steps == 1 or len(one.tokens) == steps) for one in result.segments):
            return  # a step cut short says nothing about speed
        depth = sum(chunk.start * len(chunk.token_ids) for chunk in chunks) / max(bulk, 1)
        (self._costs.drafter if drafting else self._costs.target).observe(single, bulk, depth, elapsed / steps)


def _part(planned: Planned) -> StepPart:
    segment = planned.segment
    return StepPart(
        *planned.record.key,
        planned.work.phase,
        segment.slot,
        segment.start,
        tuple(segment.token_ids),
        len(segment.drafts),
    )
