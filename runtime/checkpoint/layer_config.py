"""The numbers that define a layer and its parts, in a module that does not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Gating = Literal["softmax", "corrected_softmax", "sigmoid"]

# In all layers: more than twice what any published model has.  What a file says of each expert takes memory before any
# weight is looked at.
MAX_EXPERTS = 2**16


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    """A mixture of experts, in the place of a layer's MLP or beside it (Shazeer et al., arXiv 1701.06538).

    Attributes:
        count: experts of the layer.
        per_row: how many of them each row goes through.
        intermediate_size: the inner width of each.
        gating: how the router's logits become weights, as in `runtime.nn.layers.router`.
        normalised: whether a row's weights add up to one.
        bias: whether the router and the experts' projections have a bias.
        clamped: gain and limit of the clamped SwiGLU; None for the plain one.
        groups: into how many the experts are divided, in order.
        groups_per_row: from how many of them a row's experts may come.
        scaling: multiplies a row's weights.
        least_sum: is added to the sum that weights are divided by, where they are sigmoids.
        shared_size: the inner width of an MLP that all rows go through beside their experts; 0 for none.
        router_eps: what is added to the mean square of rows, which the router normalises, with factors of their numbers
            and of the experts in the file (Gemma 4); None where it takes them as they are.
        beside_mlp: whether the layer has its MLP, too, and reads and adds either by norms of its own.
        shared_gate: whether a gate says for each row how much of that MLP is added.
        latent_size: of what experts compute with, where that is not the row but made of it by a matrix, and another
            makes a row of their sum (Nemotron 3 Super); else 0.
    """

    count: int
    per_row: int
    intermediate_size: int
    gating: Gating = "softmax"
    normalised: bool = True
    bias: bool = False
    clamped: tuple[float, float] | None = None
    groups: int = 1
    groups_per_row: int = 1
    scaling: float = 1.0
    least_sum: float = 1e-20
    shared_size: int = 0
    router_eps: float | None = None
    beside_mlp: bool = False
    shared_gate: bool = False
    latent_size: int = 0


# What each layer has in the place of its MLP, or beside it; None is the MLP alone.
Experts = tuple[ExpertsConfig | None, ...]


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


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Attention whose keys and values are computed from a latent vector, which alone is stored.

    A head's query and key have a part that is not rotated and one that is, except in Kimi Linear.  This part of the key
    is the same for all heads, and stored beside the latent.

    Attributes:
        query_rank: numbers of the latent that queries are computed from; None where it is the hidden state itself.
        rank: numbers of the latent of keys and values.
        plain_dim: numbers of a query or key that are not rotated.
        rope_dim: those that are.
        value_dim: numbers of a value.
        scale: what attention logits are multiplied by.
        interleaved: the rotated pairs lie in the files as (0, 1), (2, 3), … and not as (i, i + rope_dim / 2).
    """

    query_rank: int | None
    rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int
    scale: float
    interleaved: bool

    @property
    def query_dim(self) -> int:
        """Numbers of a head's query."""
        return self.plain_dim + self.rope_dim

    @property
    def stored_dim(self) -> int:
        """Numbers that are stored for a token: the latent, and the rotated part of its key."""
        return self.rank + self.rope_dim


RopeKind = Literal["default", "linear", "llama3", "yarn", "longrope", "ntk_alpha", "proportional"]


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """By which angle each pair of dimensions is rotated per position.

    The fields below `theta` belong to some kinds only.

    Attributes:
        kind: how the frequencies are scaled.
        rotary_dim: how many numbers of a head are rotated, its first ones; the others stay as they are.
        theta: the base of the wavelengths.
        factor: how much the context is stretched.
        original_context: the length that the model was trained at, in tokens.
        low_freq_factor: llama3's, as the next.
        high_freq_factor: see `runtime.nn.layers.rope`.
        alpha: ntk_alpha's, by which theta grows.
        beta_fast: YaRN's, as the next two.
        beta_slow: see `runtime.nn.layers.rope`.
        truncate: whether the ends of the ramp are rounded to whole dimensions.
        short_factor: LongRoPE's, for each pair, where a slot holds no more than the original context.
        long_factor: likewise, where it holds more.
        rotated_pairs: of proportional ropes, how many pairs turn, the first ones; the others stay as they are.
        attention_factor: YaRN's and LongRoPE's; multiplies both tables, and so every attention logit by its square.
    """

    kind: RopeKind
    rotary_dim: int
    theta: float
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    alpha: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()
    rotated_pairs: int = 0
    attention_factor: float = 1.0

    def uses_long_factors(self, length: int) -> bool:
        """Return whether LongRoPE rotates a slot of `length` positions by its long factors."""
        return length > self.original_context


def yarn_attention_factor(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """Return YaRN's temperature (arXiv 2309.00071, equation 22) for a checkpoint that does not state it."""
    if mscale and mscale_all_dim:
        return yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all_dim)
    return yarn_magnitude(factor, 1.0)


def yarn_magnitude(factor: float, scale: float) -> float:
    """Return the root of what attention logits are multiplied by in a context that is stretched by `factor`."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def longrope_attention_factor(factor: float, original_context: int) -> float:
    """Return LongRoPE's temperature (arXiv 2402.13753, section 3.3) for a checkpoint that does not state it."""
    return math.sqrt(1 + math.log(factor) / math.log(original_context)) if factor > 1 else 1.0
