"""Norms of query and key heads, before they are rotated or, of Hunyuan, after it (Henry et al., arXiv 2010.04245)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.nn.layers.batch import alone
from runtime.nn.layers.norm import make_norm, read_weight

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.layers.batch import Whole
    from runtime.nn.layers.norm import Norm
    from runtime.nn.source import WeightSource


class HeadNorm:
    """Normalises each head by itself: one product for all, with a weight of its own for each.

    Args:
        query: weight `[head_dim]` that all query heads share, or `[heads, head_dim]`.
        key: likewise, of the key heads.
        config: the model's.
    """

    def __init__(self, query: Tensor, key: Tensor, config: ModelConfig) -> None:
        self.weights = query, key
        weights = query.expand(config.num_heads, -1), key.expand(config.num_kv_heads, -1)
        # Weights that are only planned are not joined: PyTorch would import its compiler for it, in seconds.
        joint = weights[0] if query.is_meta else torch.cat(weights)
        self.joint: Norm = make_norm(joint, config)  # of all heads, each with its weight

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as the files have them."""
        return sum(weight.nbytes for weight in self.weights)

    def __call__(self, heads: Tensor, whole: Whole = alone) -> Tensor:
        """Normalise query heads and the key heads behind them, `[rows, heads + kv_heads, head_dim]`."""
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


def read_query_key_norm(source: WeightSource, config: ModelConfig) -> HeadNorm | JointNorm | None:
    """Return the norm of a layer's query and key heads; None where the family has none."""
    heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    match config.qk_norm:
        case None:
            return None
        case "shared":
            shapes = (dim,), (dim,)
        case "by_head":
            shapes = (heads, dim), (kv_heads, dim)
        case "joint":
            shapes = (heads * dim,), (kv_heads * dim,)
    query, key = (
        read_weight(source, name, config, *shape) for name, shape in zip(("q_norm", "k_norm"), shapes, strict=True)
    )
    return JointNorm(query, key, config) if config.qk_norm == "joint" else HeadNorm(query, key, config)
