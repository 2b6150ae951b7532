"""The router of a mixture of experts: which of them each row goes through, and with which weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from runtime.nn.matrices.linear import total_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.experts_config import ExpertsConfig, Gating
    from runtime.nn.source import WeightSource


class Routes(NamedTuple):
    """Where rows go."""

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
    """

    def __init__(self, source: WeightSource, hidden: int, config: ExpertsConfig) -> None:
        self.weight = source.tensor("weight", config.count, hidden).float()
        self.bias = source.tensor("bias", config.count).float() if config.bias else None
        self._gating = _GATINGS[config.gating]
        self._config = config

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return total_bytes(self.weight, self.bias)

    def __call__(self, x: Tensor) -> Routes:
        """Choose the experts of rows, `[rows, hidden]`."""
        return self._gating(F.linear(x.float(), self.weight, self.bias), self._config)


# --- from logits, float32 [rows, experts], to routes ----------------------------------------------------------------


def _softmax(logits: Tensor, config: ExpertsConfig) -> Routes:
    """Take the largest, with their shares of all experts or, normalised, of each other."""
    largest, experts = logits.topk(config.per_row, dim=-1)
    if config.normalised:
        return Routes(torch.softmax(largest, dim=-1), experts)
    return Routes(torch.softmax(logits, dim=-1).gather(-1, experts), experts)


_GATINGS: dict[Gating, Callable[[Tensor, ExpertsConfig], Routes]] = {"softmax": _softmax}
