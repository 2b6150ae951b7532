"""Linear attention by the gated delta rule: Gated Delta Networks (arXiv 2412.06464), and Kimi Delta Attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import RMSNorm
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.recurrent.delta_rule import gated_delta_rule, gated_delta_step, l2norm

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.recurrent_config import GatedDeltaConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.recurrent import StateRows
    from runtime.nn.source import WeightSource


class GatedDelta:
    """Queries, keys and values go through a short convolution, and then the rule; a gate says what is left of it.

    Args:
        source: of the weights, under the layer's name.
        config: of the rule.
        hidden: size of a hidden state.
        eps: of the norm of what the rule gives.
        index: of the layer.

    Attributes:
        config: of the rule.
    """

    def __init__(self, source: WeightSource, config: GatedDeltaConfig, hidden: int, eps: float, index: int) -> None:
        own, inner = source.under("linear_attn"), config.heads * config.value_dim
        self.config, self._index = config, index
        keys = config.key_heads * config.key_dim
        qkv = {"q_proj": keys, "k_proj": keys, "v_proj": inner} if config.is_split else {"in_proj_qkv": config.channels}
        heads, rank = config.heads, config.gate_rank
        self.input = own.linear({**qkv, "in_proj_z": rank or inner}, hidden)
        self.gate_up = own.linear({"z_up_proj": inner}, rank) if rank else None
        self.output = own.linear({"out_proj": hidden}, inner)
        # Small, and not quantised: what they say of a state's decay adds up over rows.
        self.beta = own.tensor("in_proj_b.weight", heads, hidden)
        self.rate = own.tensor("in_proj_a.weight", rank or heads, hidden)
        self.rate_up = own.tensor("a_up_proj.weight", keys, rank) if rank else None
        self.conv = own.tensor("conv1d.weight", config.channels, 1, config.width)
        decays = (1, 1, heads, 1) if rank else (heads,)  # as the files have them
        self.decay = own.tensor("A_log", *decays, dtype=torch.float32).view(heads, 1).exp().neg()
        self.rate_bias = own.tensor("dt_bias", keys if rank else heads, dtype=torch.float32).view(heads, -1)
        self.norm = RMSNorm(own.tensor("norm.weight", config.value_dim), config.norm_eps or eps)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        plain = total_bytes(self.beta, self.rate, self.rate_up, self.conv, self.decay, self.rate_bias)
        gate_up = 0 if self.gate_up is None else self.gate_up.nbytes
        return self.input.nbytes + gate_up + self.output.nbytes + self.norm.nbytes + plain

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix all rows, `[rows, hidden]` to the same, each with those of its sequence before it."""
        own, rows = self.config, len(x)
        mixed, gate = self.input(x).tensor_split([own.channels], dim=-1)
        mixed = batch.with_states.convolve(self._index, mixed, self.conv, None, silu=True)
        rate = F.linear(x, self.rate)
        rate = rate if self.rate_up is None else F.linear(rate, self.rate_up)
        ruled = self._rule(mixed, rate, F.linear(x, self.beta), batch.with_states)
        gate = F.silu(gate.float()) if self.gate_up is None else self.gate_up(gate).float().sigmoid()
        gated = self.norm(ruled).float() * gate.view(rows, own.heads, -1)
        return self.output(gated.to(x.dtype).flatten(1))

    def _rule(self, mixed: Tensor, rate: Tensor, share: Tensor, states: StateRows) -> Tensor:
        """Return what the rule gives, `[rows, heads, value_dim]`; the arguments are as in `StateKernels.delta`."""
        own, rows, keys = self.config, len(mixed), self.config.key_heads * self.config.key_dim
        if states.kernels is not None:
            kept = states.buffers.part(self._index, 1)
            return states.kernels.delta(own, (mixed, rate, share), self.decay, self.rate_bias, kept, states.table)
        query, key, value = mixed.tensor_split([keys, 2 * keys], dim=-1)
        value = value.view(rows, own.heads, -1)
        parts = (
            l2norm(query.view(rows, own.key_heads, -1)),
            l2norm(key.view(rows, own.key_heads, -1)),
            value,
            self.decay * F.softplus(rate.float().view(rows, own.heads, -1) + self.rate_bias),
            share.float().sigmoid() * own.beta,
        )
        return states.recur(self._index, parts, value, gated_delta_step, gated_delta_rule)
