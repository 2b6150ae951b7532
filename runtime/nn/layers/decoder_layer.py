"""One decoder layer: attention and MLP, each behind a norm, each added to the hidden states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.nn.layers.experts import MixtureOfExperts
from runtime.nn.layers.latent_attention import LatentAttention
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.norm import RMSNorm
from runtime.nn.layers.self_attention import SelfAttention

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import Batch
    from runtime.nn.source import WeightSource


class DecoderLayer:
    """Weights and computation of a layer.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, index: int) -> None:
        self.input_norm = _norm(source, "input_layernorm", config)
        self.attention = _attention(source.under("self_attn"), config, index)
        self.post_norm = _norm(source, "post_attention_layernorm", config)
        self.mlp = _mlp(source.under("mlp"), config, index)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        parts = (self.input_norm, self.attention, self.post_norm, self.mlp)
        return sum(part.nbytes for part in parts)

    def __call__(self, batch: Batch, kv: KVCache) -> None:
        """Transform the hidden states of all rows, in place, and write their KV."""
        batch.hidden.add_(self.attention(self.input_norm(batch.hidden), batch, kv))
        batch.hidden.add_(self.mlp(self.post_norm(batch.hidden)))


def _attention(source: WeightSource, config: ModelConfig, index: int) -> SelfAttention | LatentAttention:
    return (SelfAttention if config.latent is None else LatentAttention)(source, config, index)


def _mlp(source: WeightSource, config: ModelConfig, index: int) -> GatedMlp | MixtureOfExperts:
    experts = config.experts[index]
    if experts is not None:
        return MixtureOfExperts(source, config.hidden_size, experts)
    return GatedMlp(source, config.hidden_size, config.intermediate_size, bias=config.mlp_bias)


def _norm(source: WeightSource, name: str, config: ModelConfig) -> RMSNorm:
    return RMSNorm(source.tensor(f"{name}.weight", config.hidden_size), config.norm_eps)
