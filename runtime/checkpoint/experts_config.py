"""The numbers that define a layer's mixture of experts, in a module that does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gating = Literal["softmax"]

# More than any published model has.  A layer lists its experts before a file is looked at, so there must be a bound.
MAX_EXPERTS = 4096


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    """A mixture of experts, which takes the place of a layer's MLP (Shazeer et al., arXiv 1701.06538).

    Attributes:
        count: experts of the layer.
        per_row: how many of them each row goes through.
        intermediate_size: the inner width of each.
        gating: how the router's logits become weights, as in `runtime.nn.layers.router`.
        normalised: whether a row's weights add up to one.
        bias: whether the router and the experts' projections have a bias.
        clamped: gain and limit of the clamped SwiGLU; None for the plain one.
    """

    count: int
    per_row: int
    intermediate_size: int
    gating: Gating = "softmax"
    normalised: bool = True
    bias: bool = False
    clamped: tuple[float, float] | None = None


# What each layer has in the place of its MLP; None is the MLP itself.
Experts = tuple[ExpertsConfig | None, ...]
