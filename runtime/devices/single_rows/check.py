"""Kernels of single rows beside PyTorch's operations on the same device, in a few small cases of random numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.devices.single_rows.rows import RowTable, Scoring, table_numbers
from runtime.kv.pages import PageTable
from runtime.step.step import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.devices.single_rows.rows import RowKernels

HEADS, KV_HEADS = 6, 2
PLACES, SLOTS = 1024, 3  # of the pool; of rings
# The error of the rows together, as a share of their size: sums are float32, and only what is stored is rounded.
TOLERANCE, ROUNDINGS = 1e-4, 4


class WrongRows(Exception):
    """Kernels that compute something else than PyTorch's operations, in words for the log."""


@dataclass(frozen=True, slots=True)
class Case:
    """A layer and the rows of a step.

    Attributes:
        segments: whose rows come first; one behind them is none.
        ring: positions of the layer's rings; None for the pool.
        window: that a row sees; None for all.
        softcap: of the scores.
        sinks: whether the heads have them.
    """

    segments: Sequence[Segment]
    ring: int | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False

    @property
    def longest(self) -> int:
        """Return how many positions the last row of the longest segment sees."""
        return max(segment.end - segment.first for segment in self.segments)


# Several sequences, one of which begins late and one of which has several rows; rings that have come around; a sequence
# so long that its keys are cut.
SEVERAL = (
    Segment(0, 70, [1], pages=PageTable((3, 1))),
    Segment(2, 12, [1, 1, 1], pages=PageTable((5,))),
    Segment(1, 140, [1], pages=PageTable((4, 6, 0)), first=9),
)
LONG = Segment(0, 500, [1], pages=PageTable((7, 2, 12, 11, 3, 5, 9, 8)))
CASES = {
    "rows of several sequences": Case(SEVERAL),
    "a window": Case(SEVERAL, window=11),
    "rings": Case(SEVERAL, ring=17, window=9),
    "sinks": Case(SEVERAL, sinks=True),
    "capped scores": Case(SEVERAL, softcap=2.0),
    "splits": Case([LONG]),
    "splits, with sinks and a window": Case([LONG], window=300, sinks=True),
}


def check_rows(kernels: RowKernels, device: torch.device, dtype: torch.dtype, dim: int) -> float:
    """Compare the kernels with PyTorch's operations.

    Args:
        kernels: for that type and size.
        device: where both are run.
        dtype: of queries and KV.
        dim: numbers of a head.

    Returns:
        The largest error of a case, as a share of its size.

    Raises:
        WrongRows: they differ in a case by more than rounding.
    """
    tolerance, worst = max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps), 0.0
    for seed, (name, case) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(seed)
        error = _Rows(case, device, dtype, dim, generator).error(kernels)
        if not error <= tolerance:
            raise WrongRows(f"they differ from PyTorch's operations by {error:.1e}: {name}")
        worst = max(worst, error)
    return worst


class _Rows:
    """A case's numbers.  What no row is to see of the KV is not a number, and spoils what sees it."""

    def __init__(
        self, case: Case, device: torch.device, dtype: torch.dtype, dim: int, generator: torch.Generator
    ) -> None:
        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(device, dtype)

        self._case = case
        count = sum(len(segment.token_ids) for segment in case.segments)
        numbers = torch.tensor(table_numbers(case.segments, count + 1), device=device)
        self._table = RowTable(numbers.view(-1, count + 1), case.longest)
        pool = (2, KV_HEADS, PLACES, dim) if case.ring is None else (2, SLOTS, KV_HEADS, case.ring, dim)
        self._layer = torch.full(pool, math.nan, device=device, dtype=dtype)
        self._given = drawn(count + 1, 2, KV_HEADS, dim)
        # As a layer has them: a part of the rows of a wider matrix.
        self._query = drawn(count + 1, HEADS + 2 * KV_HEADS, dim).narrow(1, 0, HEADS)
        self._scoring = Scoring(dim**-0.5, case.softcap, case.window, drawn(HEADS) if case.sinks else None)
        for segment in case.segments:
            seen = segment.first if case.window is None else max(segment.first, segment.start + 1 - case.window)
            for position in range(seen, segment.start):
                self._at(segment, position).copy_(drawn(2, KV_HEADS, dim))

    def error(self, kernels: RowKernels) -> float:
        """Write and attend, and return by how much the result differs; not a number where something was not to be."""
        case, table = self._case, self._table
        kernels.write(self._given, self._layer, case.ring, table)
        own = kernels.attend(self._query, KV_HEADS, self._layer, case.ring, table, self._scoring).float()
        expected: list[Tensor] = []
        stored: list[Tensor] = []
        for segment in case.segments:
            for position in range(segment.start, segment.end):
                stored.append(self._at(segment, position))
                expected.append(self._attended(len(expected), segment, position))
        expected.append(torch.zeros_like(expected[0]))  # the row that is none
        if not torch.equal(torch.stack(stored), self._given[:-1]):
            return math.nan
        reference = torch.stack(expected)
        return float((own - reference).norm() / reference.norm())

    def _at(self, segment: Segment, position: int) -> Tensor:
        """Return keys and values at a position, `[2, kv_heads, dim]`, a view."""
        if self._case.ring is None:
            return self._layer[:, :, segment.pages.place(position)]
        return self._layer[:, segment.slot, :, position % self._case.ring]

    def _attended(self, row: int, segment: Segment, position: int) -> Tensor:
        """Return the result of a row, float32 `[heads * dim]`."""
        scoring = self._scoring
        first = segment.first if scoring.window is None else max(segment.first, position + 1 - scoring.window)
        seen = torch.stack([self._at(segment, at) for at in range(first, position + 1)], dim=2).float()
        keys, values = seen.repeat_interleave(HEADS // KV_HEADS, dim=1)  # [heads, positions, dim] each
        scores = (keys @ self._query[row].float().unsqueeze(-1)).squeeze(-1) * scoring.scale
        if scoring.softcap is not None:
            scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
        if scoring.sinks is not None:
            scores = torch.cat([scores, scoring.sinks.float().unsqueeze(-1)], dim=-1)
        weights = torch.softmax(scores, dim=-1)[:, : keys.shape[1]]
        result: Tensor = weights.unsqueeze(1) @ values
        return result.flatten()
