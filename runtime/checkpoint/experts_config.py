"""The numbers that define a layer's mixture of experts, in a module that does not import torch."""

from __future__ import annotations

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
