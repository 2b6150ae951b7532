"""The router of a mixture of experts: which of them each row goes through, and with which weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import RMSNorm
from runtime.nn.matrices.linear import total_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.layer_config import ExpertsConfig, Gating
    from runtime.nn.source import WeightSource


class Routes(NamedTuple):
    """Destinations of rows."""

    weights: Tensor  # [rows, per row], float32
    experts: Tensor  # [rows, per row], int64: no expert twice in a row


class Router:
    """Scores all experts for each row, and chooses.

    It computes in float32, whatever the model's dtype: where rounding makes another expert win, a row is changed by
    more than by all other rounding of the layer.

    Args:
        source: of the weights, under the module's name.
        hidden: size of a row.
        config: of the experts.

    Attributes:
        weight: float32 `[experts, hidden]`.
        bias: float32 `[experts]`, or None.
        correction: float32 `[experts]`, is added to scores where experts are chosen, not where they are weighted; None
            for a plain softmax.
        input_scale: `[hidden]`, the weight of the norm of what it scores, where there is one.
        expert_scale: float32 `[experts]`, multiplies the weights of each there; else None.
    """

    def __init__(self, source: WeightSource, hidden: int, config: ExpertsConfig) -> None:
        self.weight = source.tensor("weight", config.count, hidden, dtype=torch.float32)
        self.bias = source.tensor("bias", config.count).float() if config.bias else None
        self.correction: Tensor | None = None
        if config.gating != "softmax":
            self.correction = source.tensor("e_score_correction_bias", config.count, dtype=torch.float32)
        self.input_scale: Tensor | None = None
        self.expert_scale: Tensor | None = None
        if config.router_eps is not None:
            self.input_scale = source.tensor("scale", hidden, dtype=torch.float32)
            self.expert_scale = source.tensor("per_expert_scale", config.count, dtype=torch.float32)
            self._norm = RMSNorm(self.input_scale, config.router_eps)
        self._gating = _GATINGS[config.gating]
        self._config = config

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return total_bytes(self.weight, self.bias, self.correction, self.input_scale, self.expert_scale)

    def __call__(self, x: Tensor) -> Routes:
        """Choose the experts of rows, `[rows, hidden]`."""
        x = x.float()
        if self.expert_scale is not None:
            x = self._norm(x).mul_(x.shape[-1] ** -0.5)
        logits = F.linear(x, self.weight, self.bias)
        routes = self._gating(logits, self.correction, self._config)
        if self.expert_scale is not None:
            return Routes(routes.weights * self.expert_scale[routes.experts], routes.experts)
        return routes if self._config.scaling == 1 else Routes(routes.weights * self._config.scaling, routes.experts)


# --- from logits, float32 [rows, experts], to routes ----------------------------------------------------------------


def _softmax(logits: Tensor, correction: Tensor | None, config: ExpertsConfig) -> Routes:
    """Take the largest, with their shares of all experts or, normalised, of each other."""
    if config.groups > 1:
        shares = torch.softmax(logits, dim=-1)
        experts = _choose(shares, config, rated_by=1)
        return _weighted(shares, experts, config)
    largest, experts = logits.topk(config.per_row, dim=-1)
    if config.normalised:
        return Routes(torch.softmax(largest, dim=-1), experts)
    return Routes(torch.softmax(logits, dim=-1).gather(-1, experts), experts)


def _corrected_softmax(logits: Tensor, correction: Tensor | None, config: ExpertsConfig) -> Routes:
    """Take those whose shares are the largest with the correction, and weigh them without it (Ernie 4.5)."""
    assert correction is not None
    shares = torch.softmax(logits, dim=-1)
    return _weighted(shares, _choose(shares + correction, config, rated_by=1), config)


def _sigmoid(logits: Tensor, correction: Tensor | None, config: ExpertsConfig) -> Routes:
    """Take those whose sigmoids are the largest with the correction, and weigh them without it (DeepSeek-V3)."""
    assert correction is not None
    scores = logits.sigmoid()
    return _weighted(scores, _choose(scores + correction, config, rated_by=2), config)


def _choose(scores: Tensor, config: ExpertsConfig, *, rated_by: int) -> Tensor:
    """Return a row's best experts, `[rows, per row]`, all of the groups whose best ones' scores add up to the most.

    Args:
        scores: `[rows, experts]`.
        config: of the experts.
        rated_by: how many of a group's experts are added up.
    """
    if config.groups > 1:
        grouped = scores.view(len(scores), config.groups, -1)
        ratings = grouped.topk(rated_by, dim=-1).values.sum(-1)  # [rows, groups]
        left_out = torch.ones_like(ratings).scatter_(-1, ratings.topk(config.groups_per_row, dim=-1).indices, 0)
        scores = grouped.masked_fill(left_out.bool().unsqueeze(-1), float("-inf")).flatten(1)
    return scores.topk(config.per_row, dim=-1).indices


def _weighted(scores: Tensor, experts: Tensor, config: ExpertsConfig) -> Routes:
    weights = scores.gather(-1, experts)
    return Routes(
        weights / (weights.sum(-1, keepdim=True) + config.least_sum) if config.normalised else weights, experts
    )


_GATINGS: dict[Gating, Callable[[Tensor, Tensor | None, ExpertsConfig], Routes]] = {
    "softmax": _softmax,
    "corrected_softmax": _corrected_softmax,
    "sigmoid": _sigmoid,
}
