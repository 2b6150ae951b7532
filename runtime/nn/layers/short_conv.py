"""LFM2's gated short convolution, in the place of attention (Liquid AI, arXiv 2511.23404)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.nn.matrices.linear import total_bytes

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
        self._index = index
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
        mixed = batch.with_states.convolve(self._index, before * inner, self.weight, self.bias)
        return self.output(mixed.mul_(after))
