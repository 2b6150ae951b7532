"""LFM2's gated short convolution, in the place of attention (Liquid AI, arXiv 2511.23404)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.nn.matrices.linear import total_bytes
from runtime.nn.recurrent.convolution import causal_conv

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.recurrent_config import ShortConvConfig
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.source import WeightSource
    from runtime.step.step import Segment


class ShortConv:
    """`out(c * conv(b * x))`, where `b`, `c` and `x` are projections of the rows; each channel by itself.

    Args:
        source: of the weights, under the layer's name.
        config: of the convolution.
        hidden: size of a hidden state.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ShortConvConfig, hidden: int, index: int) -> None:
        own, channels = source.under("conv"), config.channels
        self._index, self._past = index, config.width - 1
        self.input = own.linear({"in_proj": 3 * channels}, hidden, bias=config.bias)
        self.output = own.linear({"out_proj": hidden}, channels, bias=config.bias)
        self.weight = own.tensor("conv.weight", channels, 1, config.width)
        self.bias = own.tensor("conv.bias", channels) if config.bias else None

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.input.nbytes + self.output.nbytes + total_bytes(self.weight, self.bias)

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix all rows, `[rows, hidden]` to the same, each with the few of its sequence before it."""
        before, after, inner = self.input(x).chunk(3, dim=-1)
        rows = (before * inner).split_with_sizes([len(own) for own in batch.ranges])
        mixed = [self._mix(own, segment, batch.states) for own, segment in zip(rows, batch.segments, strict=True)]
        return self.output(torch.cat(mixed).mul_(after))

    def _mix(self, rows: Tensor, segment: Segment, states: StateBuffers) -> Tensor:
        """Convolve a segment's rows, and leave the states behind those after which they are wanted."""
        (last,) = states.read(self._index, segment.state)
        out, seen = causal_conv(rows, self.weight.squeeze(1), self.bias, last)
        for count, buffer in segment.next_states:
            states.write(self._index, buffer, seen.narrow(0, count, self._past))
        return out
