"""Attention of single rows by Metal kernels: the launches, and whether they may be used here."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from runtime.devices.mps.compiling import VALUES, NoKernels, agreeing, with_definitions
from runtime.devices.single_rows.check import check_rows
from runtime.devices.single_rows.rows import kv_strides, splits_for
from runtime.kv.pages import PAGE_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.mps.compiling import Library
    from runtime.devices.single_rows.rows import RowKernels, RowTable, Scoring

SOURCE = Path(__file__).with_name("kernels.metal")
THREADS = 256  # of a thread group of `attend_rows`, as the source says; and the most numbers of a head
STEP_DIM = 8  # that the numbers of a head are a multiple of
KEYS_OF_A_SPLIT = 64  # at least: eight for each of its SIMD groups


class MetalRows:
    """The launches, as `RowKernels` says.

    A kernel's arguments are in the order of its parameters: PyTorch hands on a tensor as the address of its first
    number, an int as Metal's `long`, a float as its `float`.

    Args:
        compile_shader: `torch.mps.compile_shader`.
        dtype: of queries and KV.
        dim: numbers of a head.
    """

    def __init__(self, compile_shader: Callable[[str], Library], dtype: torch.dtype, dim: int) -> None:
        self._library = compile_shader(source_of(dtype, dim))

    def write(self, keys_values: Tensor, layer: Tensor, ring: int | None, table: RowTable) -> None:
        """See `RowKernels`."""
        rows, parts, kv_heads, dim = keys_values.shape
        self._library.write_rows(
            keys_values,
            *keys_values.stride()[:3],
            layer,
            *kv_strides(layer, ring),
            table.numbers,
            table.rows,
            ring or 0,
            kv_heads,
            threads=(dim, parts * kv_heads, rows),
            group_size=(dim, 1, 1),
        )

    def attend(
        self, query: Tensor, kv_heads: int, layer: Tensor, ring: int | None, table: RowTable, scoring: Scoring
    ) -> Tensor:
        """See `RowKernels`."""
        rows, heads, dim = query.shape
        splits = _splits(rows * heads, table.longest, scoring.window)
        parts = query.new_empty(rows, heads, splits, dim + 2, dtype=torch.float32)
        output = query.new_empty(rows, heads * dim)
        sinks, has_sinks = (query, 0) if scoring.sinks is None else (scoring.sinks, 1)
        self._library.attend_rows(
            query,
            *query.stride()[:2],
            layer,
            *kv_strides(layer, ring),
            table.numbers,
            table.rows,
            parts,
            sinks,
            output,
            float(scoring.scale),
            float(scoring.softcap or 0.0),
            has_sinks,
            scoring.window or 0,
            ring or 0,
            heads // kv_heads,
            threads=(splits * THREADS, heads, rows),
            group_size=(THREADS, 1, 1),
        )
        if splits > 1:
            self._library.join_splits(
                parts, sinks, output, splits, has_sinks, threads=(dim, heads, rows), group_size=(dim, 1, 1)
            )
        return output


def _splits(programs: int, longest: int | None, window: int | None) -> int:
    """Return into how many parts keys are cut: one where rows keep a GPU busy, or see no more than a split has."""
    seen = [count for count in (longest, window) if count is not None]
    most = max(1, -(-min(seen) // KEYS_OF_A_SPLIT)) if seen else None
    splits = splits_for(programs)
    return splits if most is None else min(splits, most)


def source_of(dtype: torch.dtype, dim: int) -> str:
    """Return the kernels' source for a type and a size."""
    return with_definitions(SOURCE, VALUE=VALUES[dtype], DIM=dim, PAGE=PAGE_TOKENS)


def compile_rows(config: ModelConfig, dtype: torch.dtype) -> MetalRows:
    """Return the kernels for a model, compiled and not yet compared with anything.

    Raises:
        NoKernels: they do not have it.
    """
    if config.latent is not None:
        raise NoKernels("latent attention")
    if config.layer_shapes:
        raise NoKernels("layers of other sizes each")
    if config.head_dim % STEP_DIM or config.head_dim > THREADS:
        raise NoKernels(f"heads of {config.head_dim} numbers")
    if dtype not in VALUES:
        raise NoKernels(f"KV in {dtype}")
    return MetalRows(torch.mps.compile_shader, dtype, config.head_dim)


def open_rows(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> RowKernels | None:
    """Return kernels for the single rows of a model; None, with a line in the log, where they cannot be used.

    Args:
        config: the model's.
        device: an MPS.
        dtype: of queries and KV.
    """
    compare = partial(check_rows, device=device, dtype=dtype, dim=config.head_dim)
    return agreeing("attention", partial(compile_rows, config, dtype), compare)
