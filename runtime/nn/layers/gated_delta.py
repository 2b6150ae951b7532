"""Linear attention by the gated delta rule, as Qwen3-Next has it (Gated Delta Networks, arXiv 2412.06464)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import RMSNorm
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.recurrent.convolution import causal_conv
from runtime.nn.recurrent.delta_rule import gated_delta_rule, gated_delta_step, l2norm

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
        own, states, ones = self._config, batch.states, batch.one_row
        mixed, gate = self.input(x).tensor_split([own.channels], dim=-1)
        convolved, seen = torch.empty_like(mixed), []
        if ones is not None:
            last, before = states.gather(self._index, ones.read)
            out, seen_of_ones = self._convolve(mixed[ones.rows, None], last)
            convolved.index_copy_(0, ones.rows, out[:, 0])
        for segment, rows in batch.several_rows:
            convolved[rows], history = self._convolve(mixed[rows], states.read(self._index, segment.state)[0])
            seen.append(history)
        keys = own.key_heads * own.key_dim
        query, key, value = F.silu(convolved).tensor_split([keys, 2 * keys], dim=-1)
        given = (
            l2norm(query.view(len(x), own.key_heads, -1)),
            l2norm(key.view(len(x), own.key_heads, -1)),
            value.view(len(x), own.heads, -1),
            -self.log_rate.exp() * F.softplus(F.linear(x, self.rate).float() + self.rate_bias),
            F.linear(x, self.beta).float().sigmoid(),
        )
        ruled = torch.empty_like(given[2])
        if ones is not None:
            query, key, value, decay, beta = (part[ones.rows] for part in given)
            out, after = gated_delta_step(query, key, value, decay, beta, before)
            states.scatter(self._index, ones.written, seen_of_ones[:, 1:], after)
            ruled.index_copy_(0, ones.rows, out)
        for (segment, rows), history in zip(batch.several_rows, seen, strict=True):
            ruled[rows] = self._rule([part[rows] for part in given], segment, history, states)
        gated = self.norm(ruled).float() * F.silu(gate.float().view(len(x), own.heads, -1))
        return self.output(gated.to(x.dtype).flatten(1))

    def _convolve(self, rows: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        return causal_conv(rows, self.conv.squeeze(1), None, last)

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
