"""Bound on the steps that may follow one another where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.step.job import Burst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.core.holds import HoldRecord
    from actors.scheduling.costs import StepCostModel
    from actors.scheduling.step_planner import Planned
    from runtime.kv.rings import Rings


FEWEST = 4  # steps that are told of together, if any are: the event loop's part in longer ones is small (bench/LOG.md)
MOST_SECONDS = 0.25  # of a burst: no longer does the manager go without a look at what time alone changes


class Bursts:
    """Bounds of bursts, from what is pending and what steps cost.

    Args:
        seconds: for how long tokens of fast steps may be held back, to be told of together; None for no bursts.
        watch: gives what says whether nothing has come since, or a burst ends with the step that runs.
        costs: of the target's steps.
        rings: of the model, which bound a sequence's rows between two looks at it; None where it has none.
    """

    def __init__(
        self, seconds: float | None, watch: Callable[[], Callable[[], bool]], costs: StepCostModel, rings: Rings | None
    ) -> None:
        self._seconds = seconds
        self._watch = watch
        self._costs = costs
        self._rings = rings

    def after(self, step: Sequence[Planned], holds: Iterable[HoldRecord]) -> Burst | None:
        """Return how far a step may be followed by others, which have one more row of each of its sequences.

        Not at all while anybody waits for something else: for rows that this step had no room for, or for KV to be
        moved.
        """
        if self._seconds is None or any(planned.record.runs_alone for planned in step):
            return None
        if sum(record.pending is not None for record in holds) != len(step):
            return None
        seconds = self._costs.seconds(len(step))
        if not step or not seconds:
            return None
        most = min(int(MOST_SECONDS / seconds), *(planned.most_tokens for planned in step))
        together = steps if (steps := int(self._seconds / seconds)) >= FEWEST else 1
        if self._rings is not None:
            together = min(together, self._rings.max_rows // 2)
        together = min(together, most)
        return Burst(together, most, self._watch()) if most > 1 and together else None
