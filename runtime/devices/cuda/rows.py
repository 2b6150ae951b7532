"""Attention of single rows by Triton's kernels: the launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from runtime.devices.single_rows.rows import kv_strides, power_of_two, splits_for

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.devices.single_rows.rows import RowTable, Scoring

BLOCK_KEYS = 64  # read at a time


class Kernel(Protocol):
    """A kernel of Triton: indexed by its grid, and called."""

    def __getitem__(self, grid: tuple[int, ...]) -> Any:  # noqa: ANN401  # Triton's
        """Return what launches it."""


class TritonRows:
    """The launches, as `RowKernels` says.

    Args:
        write: `runtime.devices.cuda.kernels.write_rows`.
        attend: `attend_split`.
        join: `join_splits`.
    """

    def __init__(self, write: Kernel, attend: Kernel, join: Kernel) -> None:
        self._write = write
        self._attend = attend
        self._join = join

    def write(self, keys_values: Tensor, layer: Tensor, ring: int | None, table: RowTable) -> None:
        """See `RowKernels`."""
        rows, parts, kv_heads, dim = keys_values.shape
        self._write[rows, kv_heads, parts](
            keys_values,
            *keys_values.stride()[:3],
            layer,
            *kv_strides(layer, ring),
            table.numbers,
            table.rows,
            RING=ring or 0,
            DIM=dim,
            BLOCK=power_of_two(dim),
        )

    def attend(
        self, query: Tensor, kv_heads: int, layer: Tensor, ring: int | None, table: RowTable, scoring: Scoring
    ) -> Tensor:
        """See `RowKernels`."""
        rows, heads, dim = query.shape
        splits = splits_for(rows * kv_heads)
        sums = query.new_empty(rows, heads, splits, dim, dtype=torch.float32)
        tops, totals = query.new_empty(2, rows, heads, splits, dtype=torch.float32)
        output = query.new_empty(rows, heads * dim)
        group = heads // kv_heads
        self._attend[rows, kv_heads, splits](
            query,
            *query.stride()[:2],
            layer,
            *kv_strides(layer, ring),
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
            BLOCK_GROUP=max(16, power_of_two(group)),  # the least that Triton multiplies
            BLOCK_DIM=max(16, power_of_two(dim)),
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
            BLOCK_DIM=power_of_two(dim),
        )
        return output
