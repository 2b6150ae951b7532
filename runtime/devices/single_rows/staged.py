"""Steps of few rows whose attention is that of single rows: layers are run as they are, and not recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.devices.single_rows.rows import RowTable, SingleRows, table_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.devices.single_rows.rows import RowKernels
    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.step.step import Segment

MOST_ROWS = 64  # of a step
# Of a sequence: a token and the most drafts that --draft-tokens allows.  The rows of a prompt read the same keys, which
# one by one each would read.
MOST_ROWS_OF_ONE = 17


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A step's table that is to be sent."""

    numbers: StagedTensor
    longest: int
    kernels: RowKernels

    def sent(self) -> SingleRows:
        """Return the rows; the numbers were sent."""
        return SingleRows(RowTable(self.numbers.tensor.view(4, -1), self.longest), self.kernels)


def stage_single_rows(
    kernels: RowKernels | None, segments: Sequence[Segment], staging: StagingBuffer
) -> StagedRows | None:
    """Stage where the rows of a step lie; None where there are no kernels, or too many rows."""
    counts = [len(segment.token_ids) for segment in segments]
    if kernels is None or sum(counts) > MOST_ROWS or max(counts) > MOST_ROWS_OF_ONE:
        return None
    longest = max(segment.end - segment.first for segment in segments)
    return StagedRows(staging.ints(table_numbers(segments, sum(counts))), longest, kernels)
