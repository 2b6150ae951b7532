"""Which rows go into the next step: pure functions, and the estimate that sizes prefill chunks.

Decode, draft and verify rows come first and always fit; what is left of the token budget goes to the prompts that are
being read, one half to the oldest and one half to the shortest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.fit import FittedLine

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_CHUNK = 16
FIRST_CHUNK = 64  # before anything is measured
MAX_CHUNK = 2048


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


class ChunkSizer:
    """How many prompt rows a step may hold, so that it takes about its target time.

    Beside decoding neighbours a step may take `target_seconds`, or twice a step of their own where that is longer:
    their inter-token latency stays bounded.  With no neighbours it may take `ALONE` times as much, since a cancel
    takes effect inside the chunk; what bounds it then is how long a newcomer waits and how much a cancel can waste.
    A step's cost is taken as that of a decode step (reading the weights) plus so much for each prompt row.

    Args:
        fixed: rows per step, instead of an estimate (`--chunk-tokens`).
        target_seconds: see above.
    """

    ALONE = 6

    def __init__(self, fixed: int | None = None, target_seconds: float = 0.05) -> None:
        self._fixed = fixed
        self._target_seconds = target_seconds
        self._row = RowCost()
        self._decode_seconds = 0.0  # not measured yet

    def fresh(self) -> ChunkSizer:
        """One under the same limits that has not measured anything: for another model."""
        return ChunkSizer(self._fixed, self._target_seconds)

    @property
    def target_seconds(self) -> float:
        """The target time of a step with both decode and prefill rows."""
        return max(self._target_seconds, 2 * self._decode_seconds)

    def budget(self, decode_rows: int, depth: float) -> int:
        """Prompt rows for a step that also holds `decode_rows` others, or lets them wait.

        Args:
            depth: how many positions lie before the prompt rows, in the mean.
        """
        if self._fixed is not None:
            return self._fixed
        row_seconds = self._row.seconds(depth)
        if row_seconds is None:
            return FIRST_CHUNK
        alone = self.ALONE * max(self._target_seconds, self._decode_seconds)
        seconds = (self.target_seconds if decode_rows else alone) - self._decode_seconds
        # Alone, a chunk is never so small that reading the weights is most of its cost.
        least = MIN_CHUNK if decode_rows else FIRST_CHUNK
        return min(max(int(seconds / row_seconds), least), MAX_CHUNK)

    def observe(self, decode_rows: int, prefill_rows: int, depth: float, seconds: float) -> None:
        """Learn from a step that ran to its end over all its rows."""
        if not prefill_rows:
            self._decode_seconds = _blend(self._decode_seconds or None, seconds)
            return
        # Never below a tenth of the whole: an estimate that is off may not blow up the next chunk.
        for_rows = max(seconds - self._decode_seconds, seconds / 10)
        self._row.observe(depth, for_rows / prefill_rows)


class RowCost:
    """Seconds that a prompt row takes, which grow in a straight line with how many positions lie before its chunk.

    The line is a least-squares fit that forgets slowly, for what attention adds does not change; what it is multiplied
    by follows the machine's speed within a few steps.  So neither the first chunk after a long prompt is too small nor
    that of a retry, behind thousands of positions that are kept, too large.
    """

    FORGET = 0.97
    LITTLE_SPREAD = 128.0**2  # of the depths, their variance: below it the chunks say little about the slope
    LEAST = 0.25  # of the mean cost, whatever the line says

    def __init__(self) -> None:
        self._fit = FittedLine(self.FORGET, self.LITTLE_SPREAD)
        self._speed: float | None = None  # what the line is to be multiplied by now

    def observe(self, depth: float, seconds: float) -> None:
        """Learn what a row of a chunk took."""
        self._fit.add(depth, seconds)
        self._speed = _blend(self._speed, seconds / self._line(depth))

    def seconds(self, depth: float) -> float | None:
        """Of a row behind `depth` positions; None before anything was observed."""
        return None if self._speed is None else self._speed * self._line(depth)

    def _line(self, depth: float) -> float:
        fit = self._fit
        return max(fit.mean_y + fit.slope * (depth - fit.mean_x), self.LEAST * fit.mean_y)


def _blend(old: float | None, new: float) -> float:
    """Exponential average that follows in a few steps."""
    return new if old is None else 0.5 * old + 0.5 * new
