"""Norms of query and key heads, before they are rotated or, of Hunyuan, after it (Henry et al., arXiv 2010.04245)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.nn.layers.batch import alone
from runtime.nn.layers.norm import make_norm, read_weight

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.layer_config import LayerShape
    from runtime.nn.layers.batch import Whole
    from runtime.nn.layers.norm import Norm
    from runtime.nn.source import WeightSource


class HeadNorm:
    """Normalises each head by itself: one product for all, with a weight of its own for each.

    Args:
        query: weight `[head_dim]` that all query heads share, or `[heads, head_dim]`.
        key: likewise, of the key heads; None in a layer that has none.
        config: the model's.
        shape: of the layer.
        values: whether value heads are normalised, too, without a weight.
    """

    def __init__(
        self, query: Tensor, key: Tensor | None, config: ModelConfig, shape: LayerShape, *, values: bool = False
    ) -> None:
        self.weights = (query,) if key is None else (query, key)
        expanded = [query.expand(shape.num_heads, -1)]
        if key is not None:
            expanded.append(key.expand(shape.num_kv_heads, -1))
        if values and key is not None:
            expanded.append(torch.ones_like(key).expand(shape.num_kv_heads, -1))
        # Weights that are only planned are not joined: PyTorch would import its compiler for it, in seconds.
        joint = expanded[0] if query.is_meta else torch.cat(expanded)
        self.joint: Norm = make_norm(joint, config)  # of all heads, each with its weight

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as the files have them."""
        return sum(weight.nbytes for weight in self.weights)

    def __call__(self, heads: Tensor, whole: Whole = alone) -> Tensor:
        """Normalise query heads, the key heads behind them and, where they are normalised, the value heads.

        They are `[rows, all of these, head_dim]`.
        """
        return self.joint(heads)


class JointNorm:
    """Normalises all query heads of a row as one vector, and all its key heads as another.

    Args:
        query: weight `[heads * head_dim]`.
        key: weight `[kv_heads * head_dim]`.
        config: the model's.
    """

    def __init__(self, query: Tensor, key: Tensor, config: ModelConfig) -> None:
        self.weights = query, key
        self._query, self._key = make_norm(query, config), make_norm(key, config)
        self._sizes = query.shape[0], key.shape[0]
        self._ranks, self._eps = config.ranks, config.norm_eps

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as the files have them."""
        return sum(weight.nbytes for weight in self.weights)

    def __call__(self, heads: Tensor, whole: Whole = alone) -> Tensor:
        """Normalise query heads and the key heads behind them, `[rows, heads + kv_heads, head_dim]`.

        Where ranks have some of them each, `whole` adds up what they have of the lengths.
        """
        query, key = heads.flatten(1).split_with_sizes(self._sizes, dim=1)
        if self._ranks == 1:
            return torch.cat((self._query(query), self._key(key)), dim=1).view_as(heads)
        squares = whole(torch.stack([part.float().square().sum(-1) for part in (query, key)], dim=-1))  # [rows, 2]
        normed = [
            part * torch.rsqrt(squares[:, i : i + 1] / (self._ranks * size) + self._eps) * weight
            for i, (part, size, weight) in enumerate(zip((query, key), self._sizes, self.weights, strict=True))
        ]
        return torch.cat(normed, dim=1).to(heads.dtype).view_as(heads)


def read_query_key_norm(source: WeightSource, config: ModelConfig, layer: int) -> HeadNorm | JointNorm | None:
    """Return the norm of a layer's query and key heads; None where the family has none."""
    shape = config.shape(layer)
    heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    match config.qk_norm:
        case None:
            return None
        case "shared" | "with_values":
            shapes = (dim,), (dim,)
        case "by_head":
            shapes = (heads, dim), (kv_heads, dim)
        case "joint":
            shapes = (heads * dim,), (kv_heads * dim,)
    query = read_weight(source, "q_norm", config, *shapes[0])
    key = None if shape.kv_layer is not None else read_weight(source, "k_norm", config, *shapes[1])
    if config.qk_norm == "joint":
        assert key is not None, "in these families every layer has keys"
        return JointNorm(query, key, config)
    return HeadNorm(query, key, config, shape, values=config.qk_norm == "with_values")
