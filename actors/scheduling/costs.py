"""Cost of a model's step, learnt from the steps that ran.

The planner sizes prompt chunks by it, and a request's draft length is chosen by it; both only read.  All that is learnt
comes from one clock, the executor's, read before a step is handed to the device and after its results are back: that is
what a neighbour waits for, and what a draft costs.

A step reads all weights once, whatever it holds, so its time is a fixed part and so much a row.  Rows of sequences that
generate and rows of prompts are told apart: each sequence that generates has an attention and a token drawn of its own,
and the rows of a chunk share these.  What a prompt's row takes grows in a straight line with the positions before it.

The figures behind the constants are in bench/LOG.md, "What a step costs, and how many tokens to draft".
"""

from __future__ import annotations

from dataclasses import dataclass, field

MEMORY = 0.98  # each step makes those before it count this much less: a memory of about 50 steps
ROW_VARIANCE = 4.0  # rows squared: steps that differ less in their rows say little about what a row takes
DEPTH_VARIANCE = 128.0**2  # positions squared: chunks that differ less in depth say little about what depth takes
MAX_SURPRISE = 2.0  # a step that takes longer than so many times what was foreseen counts as that
FULL_CHUNK, MANY_ROWS = 64, 256  # rows of a chunk that says at once how fast the machine is, and that counts as a step
MIN_CHUNK_SHARE = 0.1  # of a step's seconds, which its prompt rows are taken to cost at least
MIN_DEPTH_SHARE = 0.25  # of the mean cost of a prompt's row, which each costs at least, whatever the line says


class StepCostModel:
    """Seconds of a step of one model, by its rows and by how deep the rows of prompts lie."""

    def __init__(self) -> None:
        self._steps = _RowLine()
        self._chunks = _ChunkRows()

    @property
    def knows_chunks(self) -> bool:
        """Return whether a step with rows of prompts was seen."""
        return self._chunks.known

    def observe(self, rows: int, chunk: int, depth: float, seconds: float) -> None:
        """Learn from a step that ran to its end over all its rows.

        Args:
            rows: of sequences that generate.
            chunk: rows of prompts.
            depth: how many positions lie before the rows of prompts, in the mean.
            seconds: from handing the step over to having its results.
        """
        if seconds <= 0:  # the clock is too coarse, or stands still in a test
            return
        if not chunk:
            self._steps.observe(rows, seconds)
            return
        if self.knows_chunks:
            seconds = min(seconds, MAX_SURPRISE * (self._without_chunk(rows) + chunk * self.chunk_row_seconds(depth)))
        for_chunk = max(seconds - self._without_chunk(rows), MIN_CHUNK_SHARE * seconds)
        self._chunks.observe(chunk, depth, for_chunk / chunk)

    def seconds(self, rows: float, chunk: int = 0, depth: float = 0.0) -> float | None:
        """Return what a step takes; None before one of its kind was seen.  Arguments as in `observe`.

        Rows of prompts count as other rows until a step that had some was seen.
        """
        if chunk and self.knows_chunks:
            return self._without_chunk(rows) + chunk * self.chunk_row_seconds(depth)
        return self._steps.seconds(rows + chunk)

    def chunk_row_seconds(self, depth: float) -> float:
        """Return what each row of a prompt behind `depth` positions adds to a step; needs `knows_chunks`."""
        return self._chunks.seconds(depth)

    def _without_chunk(self, rows: float) -> float:
        return self._steps.seconds(max(rows, 1)) or 0.0


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The cost models of an executor's two models.  Written by the slot manager's task, read by all."""

    target: StepCostModel = field(default_factory=StepCostModel)
    drafter: StepCostModel = field(default_factory=StepCostModel)


class _RowLine:
    """seconds = fixed + slope * rows, neither of which is ever negative.

    The slope is 0 at first: reading the weights is most of a small step.  The first step of about so many rows is left
    out: it pays for what is made once, memory here and compiled kernels elsewhere, and may take ten times as long.
    """

    def __init__(self) -> None:
        self._sizes: set[int] = set()  # of steps so far, in powers of two
        self._fit = _FittedLine(MEMORY, ROW_VARIANCE)
        self._widest = 0  # rows

    def observe(self, rows: int, seconds: float) -> None:
        if rows.bit_length() not in self._sizes:
            self._sizes.add(rows.bit_length())
            return
        if rows <= self._widest:  # for more rows than were seen there is only a guess
            seconds = min(seconds, MAX_SURPRISE * self._at(rows))
        self._widest = max(self._widest, rows)
        self._fit.add(rows, seconds)

    def seconds(self, rows: float) -> float | None:
        """None before the first step."""
        return self._at(rows) if self._fit.weight else None

    def _at(self, rows: float) -> float:
        fit = self._fit
        slope = min(fit.slope, fit.mean_y / fit.mean_x)  # or the fixed part would be negative
        return fit.mean_y + slope * (rows - fit.mean_x)


class _ChunkRows:
    """Seconds that a prompt's row adds, as a line in its depth times how fast the machine is now.

    The line forgets slowly, for what attention adds does not change; what it is multiplied by follows the machine's
    speed within a few steps.  So neither the first chunk after a long prompt is too small, nor that of a retry behind
    thousands of cached positions too large.

    A chunk counts by its rows: to the few of one that ends a prompt, or of a retry whose prompt is all but cached, all
    is ascribed that a step takes besides, and as they lie deep, the line would be steep.
    """

    def __init__(self) -> None:
        self._fit = _FittedLine(MEMORY, DEPTH_VARIANCE)
        self._speed: float | None = None  # what the line is to be multiplied by now

    @property
    def known(self) -> bool:
        return self._speed is not None

    def observe(self, rows: int, depth: float, seconds: float) -> None:
        """Learn from a chunk of so many rows, of which each took `seconds`."""
        self._fit.add(depth, seconds, rows / MANY_ROWS)
        speed = seconds / self._line(depth)
        if self._speed is None:
            self._speed = speed
        self._speed += 0.5 * min(rows / FULL_CHUNK, 1.0) * (speed - self._speed)

    def seconds(self, depth: float) -> float:
        return (1.0 if self._speed is None else self._speed) * self._line(depth)

    def _line(self, depth: float) -> float:
        fit = self._fit
        return max(fit.mean_y + fit.slope * (depth - fit.mean_x), MIN_DEPTH_SHARE * fit.mean_y)


class _FittedLine:
    """y = mean_y + slope * (x - mean_x), of which the slope is never negative.

    The slope follows the points the slower, the less they differ in x; while they do not, it stays what it was, at
    first 0.

    Args:
        forget: each point makes those before it count this much less; the memory is about 1 / (1 - forget) points.
        little_spread: a variance of x; below it the points say little about the slope.
    """

    def __init__(self, forget: float, little_spread: float) -> None:
        self.weight = 0.0  # points, those before the last in part
        self.mean_x = self.mean_y = 0.0
        self.slope = 0.0
        self._forget = forget
        self._little_spread = little_spread
        self._spread = self._common = 0.0  # variance of x, covariance with y

    def add(self, x: float, y: float, points: float = 1.0) -> None:
        """Take in a point, which counts as so many."""
        self.weight = self._forget**points * self.weight + points
        share = points / self.weight
        right, up = x - self.mean_x, y - self.mean_y
        self.mean_x += share * right
        self.mean_y += share * up
        self._spread = (1 - share) * (self._spread + share * right * right)
        self._common = (1 - share) * (self._common + share * right * up)
        steeper = (self._common - self.slope * self._spread) / (self._spread + self._little_spread)
        self.slope = max(self.slope + steeper, 0.0)
