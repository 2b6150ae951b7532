"""The slots' keys and values.

One tensor a layer, `[parts, slots, kv_heads, context, dim]`, contiguous for each slot and head so that attention reads
it in place.  `ModelConfig.kv_shape` says what the parts are.  Lengths are not here: what is valid in a slot is for the
slot manager to say (DESIGN.md, section 3), and rows beyond a committed length do not exist, whatever a dropped segment
wrote there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig

# Of the relative difference between two computations of one block's KV: 2e-5 in float32, 0.1 in bfloat16.
TOLERANCE, TOLERANCE_EXPONENT = 4, 0.75


def kv_bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of keys and values that one token takes over all layers."""
    return config.num_layers * math.prod(config.kv_shape) * dtype.itemsize


def kv_agrees(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two computations of the same KV agree, as far as their dtype's rounding lets them.

    The same rows computed in other batches differ by rounding; a wrong row differs by about its own size.
    """
    if not first.is_floating_point():
        return torch.equal(first, second)
    difference, size = (first.float() - second.float()).norm(), second.float().norm()
    tolerance = TOLERANCE * torch.finfo(first.dtype).eps ** TOLERANCE_EXPONENT
    return bool(difference <= tolerance * size)


class KVCache:
    """The tensors.  Touched by the device thread during a step or a transfer, and by nobody else.

    Attributes:
        slots: how many sequences it holds.
        context: tokens of each.

    Args:
        config: of the model.
        device: where the tensors lie.
        dtype: of keys and values.
    """

    def __init__(
        self, config: ModelConfig, *, slots: int, context: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.slots = slots
        self.context = context
        parts, kv_heads, dim = config.kv_shape
        shape = (parts, slots, kv_heads, context, dim)
        # Not zeroed: rows are written before they are read, and pages that no sequence reached are never touched.
        self._layers = [torch.empty(shape, device=device, dtype=dtype) for _ in range(config.num_layers)]
        self._slots = [layer.unbind(1) for layer in self._layers]  # views, [parts, kv_heads, context, dim]

    def write(self, layer: int, slot: int, start: int, keys_values: torch.Tensor) -> None:
        """Store `keys_values`, `[parts, kv_heads, rows, dim]`, at the positions from `start`.

        One copy a sequence: less than half the time of one indexed write of all sequences' rows (bench/LOG.md).
        """
        self._slots[layer][slot].narrow(2, start, keys_values.shape[2]).copy_(keys_values)

    def read(self, layer: int, slot: int, start: int, end: int) -> tuple[torch.Tensor, ...]:
        """Return the parts at positions `start` to `end`, as views `[kv_heads, end - start, dim]`."""
        return self._slots[layer][slot].narrow(2, start, end - start).unbind()

    def save(self, slot: int, start: int, end: int) -> torch.Tensor:
        """Return a copy in host memory, `[layers, parts, kv_heads, end - start, dim]`."""
        shape = (len(self._layers), *self._layers[0][:, slot, :, start:end].shape)
        saved = torch.empty(shape, dtype=self._layers[0].dtype)
        for layer, keys_values in enumerate(self._layers):
            saved[layer].copy_(keys_values[:, slot, :, start:end])
        return saved

    def load(self, slot: int, start: int, data: torch.Tensor) -> None:
        """Write what `save` gave to the positions from `start`."""
        end = start + data.shape[3]
        for layer, keys_values in enumerate(self._layers):
            keys_values[:, slot, :, start:end].copy_(data[layer])

    def copy(self, source: int, slot: int, start: int, end: int) -> None:
        """Copy positions of one slot to the same ones of another."""
        for keys_values in self._layers:
            keys_values[:, slot, :, start:end].copy_(keys_values[:, source, :, start:end])

    @property
    def row_shape(self) -> tuple[int, int, int, int]:
        """The shape of one token's KV: `(layers, parts, kv_heads, dim)`."""
        parts, _, kv_heads, _, dim = self._layers[0].shape
        return (len(self._layers), parts, kv_heads, dim)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of keys and values."""
        return self._layers[0].dtype

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's KV, over all layers."""
        return math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes allocated in all."""
        return sum(layer.nbytes for layer in self._layers)
