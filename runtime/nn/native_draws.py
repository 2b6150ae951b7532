"""Tokens drawn by `runtime.devices.native`'s kernels: of logits in a CPU's memory, with no sort of a vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.devices.native.structures import TOKENS_OF_BLOCK, Draw
from runtime.sampling.batch import MAX_VOCABULARY, MIN_TEMPERATURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.devices.native.kernels import Kernels
    from runtime.sampling.tokens import SampleSpec


class NativeDraws:
    """Draws tokens by kernels; a `TokenDraws`."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def draw(self, logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
        """Draw the token of each row of float32 `[rows, vocab]`; returns int64 `[rows]`."""
        rows, vocab_size = logits.shape
        own = logits.contiguous()
        weights = torch.empty(rows, -(-vocab_size // TOKENS_OF_BLOCK) * TOKENS_OF_BLOCK)
        tokens = torch.empty(rows, dtype=torch.int64)
        self._kernels.draw(
            own.data_ptr(),
            [_draw(spec) for spec in specs],
            weights.data_ptr(),
            tokens.data_ptr(),
            vocab_size=vocab_size,
            threads=torch.get_num_threads(),
        )
        return tokens


def _draw(spec: SampleSpec) -> Draw:
    params = spec.params
    if params.temperature <= 0:
        return Draw()
    return Draw(
        max(params.temperature, MIN_TEMPERATURE),
        min(max(params.top_k, 0), MAX_VOCABULARY),
        params.top_p,
        params.min_p,
        spec.number(),
    )
