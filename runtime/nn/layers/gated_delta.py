"""Linear attention by the gated delta rule, as Qwen3-Next has it (Gated Delta Networks, arXiv 2412.06464)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import RMSNorm
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.recurrent.convolution import causal_conv
from runtime.nn.recurrent.delta_rule import gated_delta_rule, l2norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from runtime.checkpoint.recurrent_config import GatedDeltaConfig
    from runtime.kv.cache import KVCache
    from runtime.kv.states import StateBuffers
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.source import WeightSource
    from runtime.step.step import Segment


class GatedDelta:
    """Queries, keys and values go through a short convolution, and through the rule; a gate leaves of it what it lets.

    Args:
        source: of the weights, under the layer's name.
        config: of the rule.
        hidden: size of a hidden state.
        eps: of the norm of what the rule gives.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: GatedDeltaConfig, hidden: int, eps: float, index: int) -> None:
        own, inner = source.under("linear_attn"), config.heads * config.value_dim
        self._config, self._index = config, index
        self.input = own.linear({"in_proj_qkv": config.channels, "in_proj_z": inner}, hidden)
        self.output = own.linear({"out_proj": hidden}, inner)
        # Small, and not quantised: what they say of a state's decay adds up over rows.
        self.beta = own.tensor("in_proj_b.weight", config.heads, hidden)
        self.rate = own.tensor("in_proj_a.weight", config.heads, hidden)
        self.conv = own.tensor("conv1d.weight", config.channels, 1, config.width)
        self.log_rate = own.tensor("A_log", config.heads, dtype=torch.float32)
        self.rate_bias = own.tensor("dt_bias", config.heads, dtype=torch.float32)
        self.norm = RMSNorm(own.tensor("norm.weight", config.value_dim), eps)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        plain = total_bytes(self.beta, self.rate, self.conv, self.log_rate, self.rate_bias)
        return self.input.nbytes + self.output.nbytes + self.norm.nbytes + plain

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix all rows, `[rows, hidden]` to the same, each with those of its sequence before it."""
        own, counts = self._config, [len(rows) for rows in batch.ranges]
        mixed, gate = self.input(x).tensor_split([own.channels], dim=-1)
        convolved = [
            self._convolve(rows, segment, batch.states)
            for rows, segment in zip(mixed.split_with_sizes(counts), batch.segments, strict=True)
        ]
        keys = own.key_heads * own.key_dim
        query, key, value = F.silu(torch.cat([rows for rows, _ in convolved])).tensor_split([keys, 2 * keys], dim=-1)
        given = (
            l2norm(query.view(len(x), own.key_heads, -1)),
            l2norm(key.view(len(x), own.key_heads, -1)),
            value.view(len(x), own.heads, -1),
            -self.log_rate.exp() * F.softplus(F.linear(x, self.rate).float() + self.rate_bias),
            F.linear(x, self.beta).float().sigmoid(),
        )
        by_segment = zip(*(part.split_with_sizes(counts) for part in given), strict=True)
        ruled = [
            self._rule(parts, segment, seen, batch.states)
            for parts, segment, (_, seen) in zip(by_segment, batch.segments, convolved, strict=True)
        ]
        gated = self.norm(torch.cat(ruled)).float() * F.silu(gate.float().view(len(x), own.heads, -1))
        return self.output(gated.to(x.dtype).flatten(1))

    def _convolve(self, rows: Tensor, segment: Segment, states: StateBuffers) -> tuple[Tensor, Tensor]:
        """Convolve a segment's rows; returns them, and what was seen of them, as `causal_conv` does."""
        before, _ = states.read(self._index, segment.state)
        return causal_conv(rows, self.conv.squeeze(1), None, before)

    def _rule(self, parts: Sequence[Tensor], segment: Segment, seen: Tensor, states: StateBuffers) -> Tensor:
        """Run a segment's rows through the rule, and leave the states behind those after which they are wanted."""
        _, state = states.read(self._index, segment.state)
        out, done, rows = [], 0, len(segment.token_ids)
        for end, buffer in chain(segment.next_states, [(rows, None)]):
            if end > done:
                query, key, value, decay, beta = (part[done:end] for part in parts)
                ruled, state = gated_delta_rule(query, key, value, decay, beta, state)
                out.append(ruled)
            if buffer is not None:
                states.write(self._index, buffer, seen.narrow(0, end, self._config.width - 1), state)
            done = end
        return torch.cat(out)
