"""The numbers that define a checkpoint's rotary position embeddings, in a module that does not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

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
