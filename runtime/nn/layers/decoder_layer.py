"""One decoder layer: attention, or what takes its place, and MLP, each between its norms, each added to the states.

A layer may lack one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from runtime.checkpoint.recurrent_config import (
    BesideAttentionConfig,
    GatedDeltaConfig,
    Mamba2Config,
    NoMixerConfig,
    ShortConvConfig,
)
from runtime.nn.layers.experts import ExpertsBesideMlp, MixtureOfExperts
from runtime.nn.layers.gated_delta import GatedDelta
from runtime.nn.layers.gemma.layer_inputs import LayerInput
from runtime.nn.layers.latent_attention import LatentAttention
from runtime.nn.layers.mamba2 import Mamba2
from runtime.nn.layers.mlp import read_mlp
from runtime.nn.layers.norm import read_norm
from runtime.nn.layers.self_attention import SelfAttention
from runtime.nn.layers.short_conv import ShortConv

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.mlp import Mlp
    from runtime.nn.source import WeightSource

    Mix = Callable[[Tensor, LayerRows, KVCache], Tensor]


class SideBySide:
    """Attention and Mamba 2 over the same rows; what they give is added.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
        own: of Mamba 2, and both parts' factors.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, own: BesideAttentionConfig, index: int) -> None:
        self.attention = SelfAttention(source.under("self_attn"), config, index)
        self.mamba = Mamba2(source, own.mamba, config.hidden_size, config.norm_eps, index)
        self._config = own

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.attention.nbytes + self.mamba.nbytes

    def __call__(self, x: Tensor, batch: LayerRows, kv: KVCache) -> Tensor:
        """Mix all rows, `[rows, hidden]` to the same, and write their KV and states."""
        attended = self.attention(x, batch, kv) * self._config.attention_factor
        return attended.add_(self.mamba(x, batch, kv), alpha=self._config.mamba_factor)


# What mixes a row with those before it.
Mixer: TypeAlias = SelfAttention | LatentAttention | ShortConv | GatedDelta | Mamba2 | SideBySide


class DecoderLayer:
    """Weights and computation of a layer.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, index: int) -> None:
        self.attention = _attention(source, config, index)
        self.mlp = _mlp(source.under("mlp"), config, index)
        norms = config.norms.of_layer(
            recurrent=config.recurrent[index] is not None,
            mixes=self.attention is not None,
            has_mlp=self.mlp is not None,
        )
        self.before_attention = read_norm(source, norms.before_attention, config)
        self.after_attention = read_norm(source, norms.after_attention, config)
        self.before_mlp = read_norm(source, norms.before_mlp, config)
        experts = config.experts[index]
        beside = experts is not None and experts.beside_mlp
        self.beside_mlp = ExpertsBesideMlp(source, config, index) if beside else None
        self.after_mlp = read_norm(source, norms.after_mlp, config)
        self.layer_input = LayerInput(source, config) if config.layer_input_size else None
        self.altup: AltUp | None = None
        self.laurel: Laurel | None = None
        if config.streams > 1:
            from runtime.nn.layers.gemma.altup import AltUp, Laurel  # which no other family needs

            self.altup, self.laurel = AltUp(source, config), Laurel(source, config)
        self._index = index
        self.scalar = source.tensor("layer_scalar", 1) if config.layer_scalars else None
        self._parallel = norms.parallel
        self._scale, self._mlp_scale = config.scales.residual, config.scales.residual * config.scales.mlp

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        norms = self.before_attention, self.after_attention, self.before_mlp, self.after_mlp
        others = self.beside_mlp, self.layer_input, self.altup, self.laurel, self.scalar
        return sum(part.nbytes for part in (self.attention, self.mlp, *norms, *others) if part is not None)

    def __call__(self, batch: LayerRows, kv: KVCache, mix: Mix | None = None) -> None:
        """Transform the hidden states of all rows, in place, and write their KV; `mix` is in the place of attention."""
        hidden = batch.hidden if self.altup is None else self.altup.predict(batch.hidden)
        normed = self.before_attention(hidden)
        if (mix := mix or self.attention) is not None:
            hidden.add_(self.after_attention(batch.whole(mix(normed, batch, kv))), alpha=self._scale)
        if self.laurel is not None:
            self.laurel(normed, hidden)
        if self.mlp is not None:
            normed = normed if self._parallel else self.before_mlp(hidden)
            added = batch.whole(self.mlp(normed))
            if self.beside_mlp is not None:
                added = self.beside_mlp(hidden, added)
            hidden.add_(self.after_mlp(added), alpha=self._mlp_scale)
        changed = hidden
        if self.altup is not None:
            hidden, changed = self.altup.correct(batch.hidden, hidden)
        if self.layer_input is not None:
            assert batch.layer_inputs is not None, "the model gives them to all layers or to none"
            changed.add_(self.layer_input(hidden, batch.layer_inputs[:, self._index]))
        if self.scalar is not None:
            hidden.mul_(self.scalar)


def _attention(source: WeightSource, config: ModelConfig, index: int) -> Mixer | None:
    match config.recurrent[index]:
        case None:
            kind = SelfAttention if config.latent is None else LatentAttention
            return kind(source.under("self_attn"), config, index)
        case ShortConvConfig() as own:
            return ShortConv(source, own, config.hidden_size, index)
        case GatedDeltaConfig() as own:
            return GatedDelta(source, own, config.hidden_size, config.norm_eps, index)
        case Mamba2Config() as own:
            return Mamba2(source, own, config.hidden_size, config.norm_eps, index)
        case BesideAttentionConfig() as own:
            return SideBySide(source, config, own, index)
        case NoMixerConfig():
            return None


def _mlp(source: WeightSource, config: ModelConfig, index: int) -> Mlp | MixtureOfExperts | None:
    experts, shape = config.experts[index], config.shape(index)
    if experts is not None and not experts.beside_mlp:
        return MixtureOfExperts(source, config.hidden_size, experts, config.activation)
    if not shape.intermediate_size:
        return None
    return read_mlp(
        source,
        config.hidden_size,
        shape.intermediate_size,
        config.activation,
        bias=config.mlp_bias,
        gate_factor=config.scales.gate,
        sparsity=shape.mlp_sparsity,
    )
