"""Recurrent layers of few rows by Metal kernels: the launches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.recurrent_config import GatedDeltaConfig, Mamba2Config, distinct_recurrences
from runtime.devices.mps.compiling import VALUES, NoKernels, with_definitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.mps.compiling import Library
    from runtime.devices.single_rows.states import StateTable

SOURCE = Path(__file__).with_name("states.metal")
LANES, SIMD_GROUPS = 32, 8  # as the source says
THREADS = SIMD_GROUPS * LANES  # of a thread group
MOST_KEYS = 256  # numbers of a key or of a state space's state: a thread has a share of them in registers


class MetalStates:
    """The launches, as `StateKernels` says; for the arguments of a kernel see `MetalRows`.

    Args:
        compile_shader: `torch.mps.compile_shader`.
        dtype: of the rows.
        width: rows that one of the convolution sees, itself included.
        keys: numbers of a key, or of a state space's state.
    """

    def __init__(self, compile_shader: Callable[[str], Library], dtype: torch.dtype, width: int, keys: int = 1) -> None:
        self._library = compile_shader(with_definitions(SOURCE, VALUE=VALUES[dtype], WIDTH=width, KEYS=keys))

    def convolve(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None, kept: Tensor, table: StateTable, *, silu: bool
    ) -> Tensor:
        """See `StateKernels`."""
        count, channels = rows.shape
        output = rows.new_empty(count, channels)
        self._library.convolve_rows(
            rows,
            rows.stride(0),
            weight,
            weight if bias is None else bias,
            kept,
            table.numbers,
            output,
            table.sequences,
            channels,
            int(bias is not None),
            int(silu),
            threads=(_groups(channels, THREADS) * THREADS, table.sequences, 1),
            group_size=(THREADS, 1, 1),
        )
        return output

    def delta(
        self,
        config: GatedDeltaConfig,
        given: tuple[Tensor, Tensor, Tensor],
        decay: Tensor,
        rate_bias: Tensor,
        states: Tensor,
        table: StateTable,
    ) -> Tensor:
        """See `StateKernels`."""
        mixed, rates, shares = given
        output = mixed.new_empty(len(mixed), config.heads, config.value_dim)
        self._library.delta_rows(
            mixed,
            rates,
            shares,
            decay,
            rate_bias,
            states,
            table.numbers,
            output,
            float(config.beta),
            table.sequences,
            config.key_heads,
            config.value_dim,
            rate_bias.shape[1],
            threads=(_groups(config.value_dim, LANES) * THREADS, config.heads, table.sequences),
            group_size=(THREADS, 1, 1),
        )
        return output

    def state_space(
        self,
        config: Mamba2Config,
        given: tuple[Tensor, Tensor],
        decay: Tensor,
        rate_bias: Tensor,
        skip: Tensor,
        states: Tensor,
        table: StateTable,
    ) -> Tensor:
        """See `StateKernels`."""
        mixed, times = given
        output = mixed.new_empty(len(mixed), config.heads, config.head_dim)
        self._library.state_space_rows(
            mixed,
            times,
            times.stride(0),
            decay,
            rate_bias,
            skip,
            states,
            table.numbers,
            output,
            table.sequences,
            config.groups,
            config.head_dim,
            threads=(_groups(config.head_dim, SIMD_GROUPS) * THREADS, config.heads, table.sequences),
            group_size=(THREADS, 1, 1),
        )
        return output


def compile_states(config: ModelConfig, dtype: torch.dtype) -> MetalStates:
    """Return the kernels for a hybrid, compiled and not yet compared with anything.

    Raises:
        NoKernels: they do not have it.
    """
    recurrences = distinct_recurrences(config.recurrent)
    if len(recurrences) != 1:
        raise NoKernels("layers of other sizes each")
    if dtype not in VALUES:
        raise NoKernels(f"rows in {dtype}")
    own, keys = recurrences[0], 1
    if isinstance(own, GatedDeltaConfig):
        keys = own.key_dim
    elif isinstance(own, Mamba2Config):
        keys = own.size
    if own.width == 1 or keys > MOST_KEYS:
        raise NoKernels(f"keys of {keys} numbers, and convolutions of {own.width} rows")
    return MetalStates(torch.mps.compile_shader, dtype, own.width, keys)


def _groups(numbers: int, size: int) -> int:
    """Return how many groups of a size hold so many."""
    return -(-numbers // size)
