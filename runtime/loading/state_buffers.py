"""Number of buffers for the states of recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.kv.states import state_bytes

if TYPE_CHECKING:
    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.loading.options import LoadOptions

PER_SLOT = 5  # that a running sequence may need in a step: `actors.core.places.state_pool.least_buffers`
SNAPSHOTS = 8  # a slot, where nobody says how much memory they may take


def count_state_buffers(options: LoadOptions, config: ModelConfig, dtype: torch.dtype) -> int:
    """Return how many buffers a model has for states, with snapshots; 0 where no layer is recurrent.

    Args:
        options: what to load, and for how many slots.
        config: the model's.
        dtype: of its rows.
    """
    if not config.is_hybrid:
        return 0
    snapshots = SNAPSHOTS * options.slots
    if options.state_memory is not None:
        snapshots = options.state_memory // state_bytes(config, dtype)
    return PER_SLOT * options.slots + snapshots
