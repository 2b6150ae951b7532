"""Memory for the states of recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.units import counted, format_size
from runtime.kv.states import state_bytes

if TYPE_CHECKING:
    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.options import LoadOptions

PER_SLOT = 5  # that a running sequence may need in a step: `actors.core.places.state_pool.least_buffers`
SNAPSHOTS = 8  # a slot, where nobody says how much memory they may take


@dataclass(frozen=True, slots=True)
class StateMemory:
    """Buffers of a model, each for a state of all its recurrent layers; none where it has no such layers.

    Attributes:
        bytes_per_buffer: what one takes.
        buffers: how many there are.
        snapshots: how many of them are for snapshots, beside what running sequences need.
    """

    bytes_per_buffer: int = 0
    buffers: int = 0
    snapshots: int = 0

    @property
    def nbytes(self) -> int:
        """Return what all of them take, with one of zeros for a sequence's beginning."""
        return (self.buffers + 1) * self.bytes_per_buffer

    def __str__(self) -> str:
        """Say how many there are, and how large one is."""
        size = format_size(self.bytes_per_buffer)
        return f"{counted(self.buffers, 'buffer')} of {size}, {self.snapshots} for snapshots"


def state_memory(options: LoadOptions, config: ModelConfig, dtype: torch.dtype) -> StateMemory:
    """Return what a model has for its states.

    Args:
        options: what to load, and for how many slots.
        config: the model's.
        dtype: of its rows.
    """
    if not config.is_hybrid:
        return StateMemory()
    size, snapshots = state_bytes(config, dtype), SNAPSHOTS * options.slots
    if options.state_memory is not None:
        snapshots = options.state_memory // size
    return StateMemory(size, PER_SLOT * options.slots + snapshots, snapshots)
