"""The sizes of one layer, where not all layers of a model are alike, in a module that does not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Sizes of a layer's attention and MLP.

    Attributes:
        num_heads: query heads.
        num_kv_heads: key and value heads; divides the query heads.
        head_dim: numbers of a head; even.
        intermediate_size: the MLP's inner width; 0 where the layer has none.
        values_are_keys: its values are the product that its keys are made of, so it has no matrix for them.
        mlp_sparsity: share of the MLP's gates that are cut off, by their mean and deviation.
        kv_layer: the earlier layer whose KV it reads, as it has none of its own; None where it has.  Of a drafter that
            is lent KV, itself.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    values_are_keys: bool = False
    kv_layer: int | None = None
    mlp_sparsity: float = 0.0
