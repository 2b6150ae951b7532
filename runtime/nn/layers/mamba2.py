"""Mamba 2's layer, in the place of attention or beside it (Transformers are SSMs, arXiv 2405.21060, section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import NoNorm, RMSNorm
from runtime.nn.matrices.linear import total_bytes
from runtime.nn.recurrent.ssm import ssm_scan, ssm_step

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.recurrent_config import Mamba2Config
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.norm import Norm
    from runtime.nn.layers.recurrent import StateRows
    from runtime.nn.source import WeightSource


class Mamba2:
    """Rows go through a short convolution and the state-space model, times a gate, and may be normalised by groups.

    Args:
        source: of the weights, under the layer's name.
        config: of the model.
        hidden: size of a hidden state.
        eps: of the norm.
        index: of the layer.

    Attributes:
        config: of the model.
    """

    def __init__(self, source: WeightSource, config: Mamba2Config, hidden: int, eps: float, index: int) -> None:
        own, heads, inner = source.under("mamba"), config.heads, config.inner
        self.config, self._index = config, index
        self.input = own.linear({"in_proj": inner + config.channels + heads}, hidden, bias=config.bias)
        self.output = own.linear({"out_proj": hidden}, inner, bias=config.output_bias)
        sizes = torch.tensor([inner, inner, config.groups * config.size, config.groups * config.size, heads])
        factors = None if config.factors is None else torch.tensor(config.factors).repeat_interleave(sizes)
        self._factors = None if factors is None else factors.to(own.device, own.dtype)
        self.conv = own.tensor("conv1d.weight", config.channels, 1, config.width)
        self.conv_bias = own.tensor("conv1d.bias", config.channels) if config.conv_bias else None
        self.decay = own.tensor("A_log", heads, dtype=torch.float32).exp().neg()
        self.rate_bias, self.skip = (own.tensor(name, heads, dtype=torch.float32) for name in ("dt_bias", "D"))
        self.norm: Norm = NoNorm()
        if config.has_norm:
            self.norm = RMSNorm(own.tensor("norm.weight", inner).view(config.groups, -1), eps)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        plain = total_bytes(self.conv, self.conv_bias, self.decay, self.rate_bias, self.skip)
        return self.input.nbytes + self.output.nbytes + self.norm.nbytes + plain

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix all rows, `[rows, hidden]` to the same, each with those of its sequence before it."""
        own, rows = self.config, len(x)
        given = self.input(x) if self._factors is None else self.input(x) * self._factors
        gate, mixed, time = given.tensor_split([own.inner, own.inner + own.channels], dim=-1)
        mixed = batch.with_states.convolve(self._index, mixed, self.conv, self.conv_bias, silu=True)
        scanned = self._rule(mixed, time, batch.with_states)
        scanned, opened = scanned.float().view(rows, own.groups, -1), F.silu(gate.float()).view(rows, own.groups, -1)
        gated = self.norm(scanned) * opened if own.norm_before_gate else self.norm(scanned * opened)
        return self.output(gated.to(x.dtype).flatten(1))

    def _rule(self, mixed: Tensor, time: Tensor, states: StateRows) -> Tensor:
        """Return what the model gives, `[rows, heads, head_dim]`; arguments are as in `StateKernels.state_space`."""
        own, rows = self.config, len(mixed)
        if states.kernels is not None:
            kept = states.buffers.part(self._index, 1)
            return states.kernels.state_space(
                own, (mixed, time), self.decay, self.rate_bias, self.skip, kept, states.table
            )
        x, b, c = mixed.split_with_sizes([own.inner, own.groups * own.size, own.groups * own.size], dim=-1)
        x, (b, c) = x.view(rows, own.heads, -1), (y.view(rows, own.groups, -1) for y in (b, c))
        parts = x, F.softplus(time.float() + self.rate_bias), b, c
        return states.recur(self._index, parts, x, self._step, self._scan)

    def _step(self, x: Tensor, time: Tensor, b: Tensor, c: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        return ssm_step(x, time, self.decay, b, c, self.skip, states)

    def _scan(self, x: Tensor, time: Tensor, b: Tensor, c: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return ssm_scan(x, time, self.decay, b, c, self.skip, state)
