"""The states of recurrent layers.

A *state buffer* is a numbered place that has the states of all recurrent layers of one sequence at one length.  A step
reads one and writes others, and a buffer that somebody names is never written again.  So commits, cancels, rejected
drafts and forks change who names a buffer, which is for the slot manager to say, and nothing is copied or undone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.recurrent_config import StatePart


def state_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of one buffer of a model that computes in `dtype`; 0 where no layer is recurrent."""
    parts = [part for layer in config.states if layer is not None for part in layer]
    return sum(math.prod(part.shape) * _dtype(part, dtype).itemsize for part in parts)


class StateBuffers:
    """The tensors.  Touched by the device thread during a step or a transfer, and by nobody else.

    Attributes:
        count: buffers that there are, numbered from 0.

    Args:
        config: of the model.
        count: of buffers.
        device: where they lie.
        dtype: of the model.
    """

    def __init__(self, config: ModelConfig, *, count: int, device: torch.device, dtype: torch.dtype) -> None:
        self.count = count
        # One more than can be named: a sequence's beginning, zeros, which is never written.
        self._layers = [
            [torch.empty(count + 1, *part.shape, device=device, dtype=_dtype(part, dtype)) for part in layer or ()]
            for layer in config.states
        ]
        self._parts = [part for layer in self._layers for part in layer]
        for part in self._parts:
            part[count].zero_()
        self.bytes_per_buffer = state_bytes(config, dtype)

    @property
    def nbytes(self) -> int:
        """Bytes allocated in all."""
        return sum(part.nbytes for part in self._parts)

    # --- rows of a step -----------------------------------------------------------------------------------------------

    def check_rows(self, start: int, state: int | None, written: Collection[int]) -> None:
        """Check that rows from `start` on go on from a state, and leave that as it is.

        Whoever plans steps knows it; this is a second look, before anything is computed.

        Raises:
            RuntimeError: they do not.
        """
        if (state is None) != (start == 0) or state in written:
            raise RuntimeError(f"rows from {start} on go on from state {state}, and write {written}")

    def part(self, layer: int, index: int) -> Tensor:
        """Return one part of a layer's states, `[buffers, …]`."""
        return self._layers[layer][index]

    def number(self, state: int | None) -> int:
        """Return where a state lies in `part`; None is that of a sequence's beginning, which nobody may write."""
        return self.count if state is None else state

    # --- transfers ----------------------------------------------------------------------------------------------------

    def save(self, buffer: int) -> Tensor:
        """Return a copy of a buffer in host memory, uint8 `[bytes_per_buffer]`."""
        return torch.cat([part[buffer].cpu().flatten().view(torch.uint8) for part in self._parts])

    def load(self, buffer: int, data: Tensor) -> None:
        """Write what `save` gave."""
        sizes = [part[buffer].nbytes for part in self._parts]
        for part, own in zip(self._parts, data.split_with_sizes(sizes), strict=True):
            part[buffer].copy_(own.clone().view(part.dtype).view(part.shape[1:]))  # a copy begins at an even address


def _dtype(part: StatePart, dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if part.float32 else dtype
