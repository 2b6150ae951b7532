"""Inputs of layers: beside its embedding, a token has a small vector of its own for each layer (Gemma 3n and 4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from runtime.nn.layers.mlp import ACTIVATIONS
from runtime.nn.layers.norm import make_norm, read_norm, read_weight

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.source import WeightSource


class LayerInputs:
    """What all layers are given of a token: an embedding's row, and a projection of what goes into the first layer.

    Args:
        source: of the weights, under the model's name.
        config: the model's.
    """

    def __init__(self, source: WeightSource, config: ModelConfig) -> None:
        self._shape = config.num_layers, config.layer_input_size
        self._vocab = config.layer_input_vocab if config.layer_input_vocab < config.vocab_size else None
        width = math.prod(self._shape)
        self.embedding = source.embedding("embed_tokens_per_layer", config.layer_input_vocab, width)
        self.projection = source.linear({"per_layer_model_projection": width}, config.hidden_size)
        weight = read_weight(source, "per_layer_projection_norm", config, config.layer_input_size)
        self.norm = make_norm(weight, config)
        self._projection_scale = config.hidden_size**-0.5
        # Rounded as the embedding's own.
        self._embedding_scale = torch.tensor(math.sqrt(config.layer_input_size), dtype=source.dtype).item()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.embedding.nbytes + self.projection.nbytes + self.norm.nbytes

    def __call__(self, token_ids: Tensor, embedded: Tensor) -> Tensor:
        """Return `[rows, layers, size]` of tokens, `[rows]`, and what goes into the first layer, `[rows, hidden]`."""
        projected = self.norm(self.projection(embedded).mul_(self._projection_scale).view(-1, *self._shape))
        if self._vocab is not None:  # the others are those of images and sounds
            token_ids = token_ids * (token_ids < self._vocab)
        own = self.embedding(token_ids).mul_(self._embedding_scale).view(-1, *self._shape)
        return projected.add_(own).mul_(math.sqrt(0.5))


class LayerInput:
    """What a layer adds to the hidden states for its input, behind its MLP.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
    """

    def __init__(self, source: WeightSource, config: ModelConfig) -> None:
        hidden, size = config.hidden_size, config.layer_input_size
        self.gate = source.linear({"per_layer_input_gate": size}, hidden)
        self.projection = source.linear({"per_layer_projection": hidden}, size)
        self.norm = read_norm(source, "post_per_layer_input_norm", config)
        self._activation = ACTIVATIONS[config.activation]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.gate.nbytes + self.projection.nbytes + self.norm.nbytes

    def __call__(self, hidden: Tensor, given: Tensor) -> Tensor:
        """Return what is added to `[rows, hidden]`; `given`, `[rows, size]`, is the layer's input."""
        return self.norm(self.projection(self._activation(self.gate(hidden), given)))
