"""Choice of the next step's rows, as pure functions of what is pending and of what steps cost.

Decode, draft and verify rows come first and always fit; what is left of the step's budget goes to the prompts that are
being read: to those of the best priority first, and among these one half to the oldest and one half to the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.scheduling.costs import StepCostModel

# In rows of prompts per step.  For figures see bench/LOG.md: "Beside a prompt", "Larger chunks while nobody decodes".
MIN_CHUNK = 8
FIRST_CHUNK = 64  # before a chunk was measured
MAX_CHUNK = 2048
ALONE = 15  # target times that a step may take where nobody decodes
STEPS_BESIDE, STEPS_ALONE = 2, 6  # steps of those who decode that it may take where that is longer


def share_budget(wanted: Sequence[int], budget: int) -> list[int]:
    """Split `budget` rows over prompts that want `wanted[i]` rows each, the oldest first; some may get none.

    Even shares would end all prompts late together.  Half goes to the oldest, so that nobody starves; the rest to whom
    it brings nearest to the end, so that a short prompt is not kept waiting by a long one.

    >>> share_budget([500, 300, 10], 200)
    [100, 90, 10]
    """
    shares = [0] * len(wanted)
    if wanted:
        shares[0] = min(wanted[0], (budget + 1) // 2)
    left = budget - sum(shares)
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i] - shares[i]):
        more = min(wanted[i] - shares[i], left)
        shares[i] += more
        left -= more
    return shares


def share_by_priority(wanted: Sequence[tuple[int, int]], budget: int) -> list[int]:
    """Split `budget` rows over prompts of `(priority, rows)` each, the oldest first: the lower number's come first.

    >>> share_by_priority([(0, 500), (-1, 100), (-1, 300)], 200)
    [0, 100, 100]
    """
    shares = [0] * len(wanted)
    for best in sorted({priority for priority, _ in wanted}):
        places = [i for i, (priority, _) in enumerate(wanted) if priority == best]
        for i, share in zip(places, share_budget([wanted[i][1] for i in places], budget), strict=True):
            shares[i] = share
            budget -= share
    return shares


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Bound on a step with rows of prompts: the time that it takes, or the rows that it holds.

    Beside decoding neighbours a step may take `step_seconds`, or twice a step of their own where that is longer: their
    inter-token latency stays bounded.  So it may where what is read is probably ended soon, since a step has to end
    between two keystrokes.  With no neighbours it may take `ALONE` times as much, since a cancel takes effect inside
    the chunk; what bounds it then is how long a newcomer waits and how much a cancel can waste.

    Attributes:
        fixed: rows per step, instead of an estimate (`--chunk-tokens`).
        step_seconds: the target time of a step that decoding neighbours share with a prompt.
    """

    fixed: int | None
    step_seconds: float

    def seconds(self, costs: StepCostModel, decode_rows: int, *, is_brief: bool = False) -> float:
        """Return what a step that also holds `decode_rows` others, or lets them wait, may take."""
        without = costs.seconds(max(decode_rows, 1)) or 0.0
        if decode_rows or is_brief:
            return max(self.step_seconds, STEPS_BESIDE * without)
        return max(ALONE * self.step_seconds, STEPS_ALONE * without)

    def budget(self, costs: StepCostModel, decode_rows: int, depth: float, *, is_brief: bool = False) -> int:
        """Rows of prompts for a step that also holds `decode_rows` others, or lets them wait.

        Args:
            costs: of the model that the step runs on.
            decode_rows: rows that somebody's next token waits for.
            depth: how many positions lie before the rows of prompts, in the mean.
            is_brief: whether one of the prompts is probably ended soon, and the step in flight lost with it.
        """
        if self.fixed is not None:
            return self.fixed
        if not costs.knows_chunks:
            return FIRST_CHUNK
        seconds = self.seconds(costs, decode_rows, is_brief=is_brief) - (costs.seconds(max(decode_rows, 1)) or 0.0)
        # Alone, a chunk is never so small that reading the weights is most of its cost.
        least = MIN_CHUNK if decode_rows or is_brief else FIRST_CHUNK
        return min(max(int(seconds / costs.chunk_row_seconds(depth)), least), MAX_CHUNK)
