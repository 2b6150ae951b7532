"""What a checkpoint says of its rotary position embeddings; numbers only, so that reading it does not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RopeKind = Literal["default", "linear", "llama3", "yarn"]


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Which angle each pair of dimensions turns by per position.

    The fields below `theta` belong to some kinds only: `factor` stretches the context and `original_context`
    (tokens) is the length it was trained at.  The frequency factors are llama3's, the betas and `truncate`
    YaRN's.  `attention_factor` multiplies both tables, and so scales every attention score by its square.
    """

    kind: RopeKind
    head_dim: int
    theta: float
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0


def yarn_attention_factor(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """YaRN's temperature (arXiv 2309.00071, equation 22) where the checkpoint does not state it."""

    def at(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    return at(mscale) / at(mscale_all_dim) if mscale and mscale_all_dim else at(1.0)
