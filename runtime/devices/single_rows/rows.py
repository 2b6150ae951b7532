"""Rows of a step where they lie, scoring of keys by a layer, and the interface of kernels of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Protocol

from runtime.kv.pages import pages_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.step.step import Segment

NO_PLACE = -1  # of a row that stands for none
# Programs that keep a GPU busy; fewer rows are cut into more splits.
PROGRAMS = 256
MOST_SPLITS = 32


@dataclass(frozen=True, slots=True)
class RowTable:
    """Table of where rows lie and what they see.

    Attributes:
        numbers: int64 `[4 + pages, rows]`: their places in the pool of KV, -1 of a row that is none; positions in their
            sequences; the first position that has KV; slots; and the pages of their sequences, one behind the other.
        longest: positions that no row sees more of; None where the host does not know.
    """

    numbers: Tensor
    longest: int | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.numbers.shape[1]


def table_numbers(segments: Sequence[Segment], rows: int) -> list[int]:
    """Return the numbers of a `RowTable` of so many rows, one after the other; behind the segments' rows are none.

    It has as many pages as the longest sequence.
    """
    none = rows - sum(len(segment.token_ids) for segment in segments)
    own = [(segment, position) for segment in segments for position in range(segment.start, segment.end)]
    places = [segment.pages.place(position) for segment, position in own]
    positions = [position for _, position in own]
    firsts = [segment.first for segment, _ in own]
    slots = [segment.slot for segment, _ in own]
    rest = [0] * none
    tables = (segment.pages.pages[: pages_for(segment.end)] for segment, _ in own)
    pages = chain.from_iterable(zip_longest(*tables, *[()] * none, fillvalue=0))
    return [*places, *[NO_PLACE] * none, *positions, *rest, *firsts, *rest, *slots, *rest, *pages]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scoring of keys by a layer.

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


class RowKernels(Protocol):
    """The launches."""

    def write(self, keys_values: Tensor, layer: Tensor, ring: int | None, table: RowTable) -> None:
        """Store the keys and values of all rows.

        Args:
            keys_values: `[rows, parts, kv_heads, head_dim]`; the last axis is contiguous.
            layer: the KV of a layer, as `KVCache.layer` gives it.
            ring: its positions, where it is a ring of each slot; None for the pool.
            table: of the rows.
        """

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


@dataclass(frozen=True, slots=True)
class SingleRows:
    """Rows that attend one by one, by kernels that read from the device where each of them lies."""

    table: RowTable
    kernels: RowKernels


def kv_strides(layer: Tensor, ring: int | None) -> tuple[int, int, int, int]:
    """Return how far parts, slots, heads and rows lie apart; of the pool slots are nowhere."""
    if ring is None:
        part, head, row, _ = layer.stride()
        return part, 0, head, row
    part, slot, head, row, _ = layer.stride()
    return part, slot, head, row


def splits_for(programs: int) -> int:
    """Return into how many parts keys are cut where so many programs take them whole: a power of two."""
    return min(MOST_SPLITS, power_of_two(max(1, PROGRAMS // programs)))


def power_of_two(least: int) -> int:
    """Return the first power of two that is not less."""
    return 1 << (least - 1).bit_length()


MOST_ROWS = 64  # of a step
# Of a sequence: a token and the most drafts that --draft-tokens allows.  The rows of a prompt read the same keys, which
# one by one each would read.
MOST_ROWS_OF_ONE = 17


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The table of a step whose attention is that of single rows; its layers are run as they are, and not recorded."""

    numbers: StagedTensor
    rows: int
    longest: int
    kernels: RowKernels

    def sent(self) -> SingleRows:
        """Return the rows; the numbers were sent."""
        return SingleRows(RowTable(self.numbers.tensor.view(-1, self.rows), self.longest), self.kernels)


def stage_single_rows(
    kernels: RowKernels | None, segments: Sequence[Segment], staging: StagingBuffer
) -> StagedRows | None:
    """Stage where the rows of a step lie; None where there are no kernels, or too many rows."""
    if kernels is None or not are_few(segments):
        return None
    longest = max(segment.end - segment.first for segment in segments)
    rows = sum(len(segment.token_ids) for segment in segments)
    return StagedRows(staging.ints(table_numbers(segments, rows)), rows, longest, kernels)


def are_few(segments: Sequence[Segment]) -> bool:
    """Return whether a step has so few rows that kernels of single rows are for it."""
    counts = [len(segment.token_ids) for segment in segments]
    return sum(counts) <= MOST_ROWS and max(counts) <= MOST_ROWS_OF_ONE
