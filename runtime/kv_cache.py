"""The slots' keys and values.

One tensor a layer, `[2, slots, kv_heads, context, head_dim]`, contiguous for each slot and head so that attention reads
it in place.  Lengths are not here: what is valid in a slot is for the slot manager to say (DESIGN.md, section 3), and
rows beyond a committed length do not exist, whatever a dropped segment wrote there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from runtime.config import ModelConfig


def kv_bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    """Bytes of keys and values that one token takes over all layers."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize


class KVCache:
    """Storage only.  Touched by the device thread during a step, and by nobody else."""

    def __init__(
        self, config: ModelConfig, *, slots: int, context: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.slots = slots
        self.context = context
        shape = (2, slots, config.num_kv_heads, context, config.head_dim)
        # Not zeroed: rows are written before they are read, and pages that no sequence reached are never touched.
        self._layers = [torch.empty(shape, device=device, dtype=dtype) for _ in range(config.num_layers)]

    def write(self, layer: int, slots: torch.Tensor, positions: torch.Tensor, keys_values: torch.Tensor) -> None:
        """Store one row per token.

        `slots` and `positions` are `[rows]`; `keys_values` is `[rows, 2, kv_heads, head_dim]`.
        """
        self._layers[layer][:, slots, :, positions] = keys_values

    def read(self, layer: int, slot: int, start: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Views of the keys and values at positions `start` to `end`, each `[kv_heads, end - start, head_dim]`."""
        keys_values = self._layers[layer][:, slot, :, start:end]
        return keys_values[0], keys_values[1]

    @property
    def nbytes(self) -> int:
        """Bytes allocated in all."""
        return sum(layer.nbytes for layer in self._layers)
