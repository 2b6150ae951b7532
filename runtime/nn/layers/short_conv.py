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
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.source import WeightSource


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
        rows, states = before * inner, batch.states
        mixed = torch.empty_like(rows)
        if (ones := batch.one_row) is not None:
            (last,) = states.gather(self._index, ones.read)
            out, seen = self._convolve(rows[ones.rows, None], last)
            states.scatter(self._index, ones.written, seen[:, 1:])
            mixed.index_copy_(0, ones.rows, out[:, 0])
        for segment, own in batch.several_rows:
            (last,) = states.read(self._index, segment.state)
            mixed[own], seen = self._convolve(rows[own], last)
            for count, buffer in segment.next_states:
                states.write(self._index, buffer, seen.narrow(0, count, self._past))
        return self.output(mixed.mul_(after))

    def _convolve(self, rows: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        return causal_conv(rows, self.weight.squeeze(1), self.bias, last)
