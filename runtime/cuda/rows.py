"""Attention of single rows: a step's rows, whichever sequences they are of, in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.step.step import Segment

NO_PLACE = -1  # of a row that stands for none
BLOCK_KEYS = 64  # read at a time
# Programs that keep a GPU busy; fewer rows are cut into more splits.
PROGRAMS = 256
MOST_SPLITS = 32


class Kernel(Protocol):
    """A kernel of Triton: indexed by its grid, and called."""

    def __getitem__(self, grid: tuple[int, ...]) -> Any:  # noqa: ANN401  # Triton's
        """Return what launches it."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """Where rows lie and what they see.

    Attributes:
        numbers: int64 `[4, rows]`: their places in the arena of KV, -1 of a row that is none; positions in their
            sequences; the first position that has KV; slots.
    """

    numbers: Tensor

    @property
    def rows(self) -> int:
        """How many."""
        return self.numbers.shape[1]


def table_numbers(segments: Sequence[Segment], rows: int) -> list[int]:
    """Return the numbers of a `RowTable` of so many rows, one after the other; behind the segments' rows are none."""
    none = rows - sum(len(segment.token_ids) for segment in segments)
    own = [(segment, position) for segment in segments for position in range(segment.start, segment.end)]
    places = [segment.origin + position for segment, position in own]
    positions = [position for _, position in own]
    firsts = [segment.first for segment, _ in own]
    slots = [segment.slot for segment, _ in own]
    rest = [0] * none
    return [*places, *[NO_PLACE] * none, *positions, *rest, *firsts, *rest, *slots, *rest]


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer scores keys.

    Attributes:
        scale: of the scores.
        softcap: what no score exceeds; None where nothing bounds them.
        window: how many positions a row sees, itself included; None for all before it.
        sinks: a score for nothing, for each query head; None where there is none.
    """

    scale: float
    softcap: float | None
    window: int | None
    sinks: Tensor | None


class RowKernels:
    """The launches.

    Args:
        write: `runtime.cuda.kernels.write_rows`.
        attend: `attend_split`.
        join: `join_splits`.
    """

    def __init__(self, write: Kernel, attend: Kernel, join: Kernel) -> None:
        self._write = write
        self._attend = attend
        self._join = join

    def write(self, keys_values: Tensor, layer: Tensor, ring: int | None, table: RowTable) -> None:
        """Store the keys and values of all rows.

        Args:
            keys_values: `[rows, parts, kv_heads, head_dim]`; the last axis is contiguous.
            layer: the KV of a layer, as `KVCache.layer` gives it.
            ring: its positions, where it is a ring of each slot; None for the arena.
            table: of the rows.
        """
        rows, parts, kv_heads, dim = keys_values.shape
        self._write[rows, kv_heads, parts](
            keys_values,
            *keys_values.stride()[:3],
            layer,
            *_kv_strides(layer, ring),
            table.numbers,
            table.rows,
            RING=ring or 0,
            DIM=dim,
            BLOCK=_power(dim),
        )

    def attend(
        self, query: Tensor, kv_heads: int, layer: Tensor, ring: int | None, table: RowTable, scoring: Scoring
    ) -> Tensor:
        """Attend from all rows, each to what it sees of its sequence.

        Args:
            query: `[rows, heads, head_dim]`; the last axis is contiguous.
            kv_heads: among which the query heads are divided.
            layer: as in `write`.
            ring: see there.
            table: of the rows.
            scoring: of the layer.

        Returns:
            `[rows, heads * head_dim]`; zeros for a row that is none.
        """
        rows, heads, dim = query.shape
        splits = min(MOST_SPLITS, _power(max(1, PROGRAMS // (rows * kv_heads))))
        sums = query.new_empty(rows, heads, splits, dim, dtype=torch.float32)
        tops, totals = query.new_empty(2, rows, heads, splits, dtype=torch.float32)
        output = query.new_empty(rows, heads * dim)
        group = heads // kv_heads
        self._attend[rows, kv_heads, splits](
            query,
            *query.stride()[:2],
            layer,
            *_kv_strides(layer, ring),
            table.numbers,
            table.rows,
            sums,
            tops,
            totals,
            scoring.scale,
            scoring.softcap or 1.0,
            HAS_CAP=scoring.softcap is not None,
            WINDOW=scoring.window or 0,
            RING=ring or 0,
            GROUP=group,
            DIM=dim,
            SPLITS=splits,
            BLOCK_GROUP=max(16, _power(group)),  # the least that Triton multiplies
            BLOCK_DIM=max(16, _power(dim)),
            BLOCK_KEYS=BLOCK_KEYS,
        )
        self._join[rows, heads](
            sums,
            tops,
            totals,
            totals if scoring.sinks is None else scoring.sinks,
            output,
            HAS_SINKS=scoring.sinks is not None,
            DIM=dim,
            SPLITS=splits,
            BLOCK_DIM=_power(dim),
        )
        return output


def _kv_strides(layer: Tensor, ring: int | None) -> tuple[int, int, int, int]:
    """Return how far parts, slots, heads and rows lie apart; of the arena slots are nowhere."""
    if ring is None:
        part, head, row, _ = layer.stride()
        return part, 0, head, row
    part, slot, head, row, _ = layer.stride()
    return part, slot, head, row


def _power(least: int) -> int:
    """Return the first power of two that is not less."""
    return 1 << (least - 1).bit_length()
