"""Rotary position embeddings (Su et al., arXiv 2104.09864) in the layout of Hugging Face checkpoints.

The rotated pairs are `(i, i + rotary_dim / 2)`, as those checkpoints' query and key rows are ordered for it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.families.scales import QueryScale
    from runtime.checkpoint.layer_config import RopeConfig, RopeKind


def frequencies(config: RopeConfig, length: int) -> Tensor:
    """Return the angle by which each pair turns from one position to the next, `[rotary_dim / 2]`, float32.

    Args:
        config: of the rope.
        length: positions that a slot has; by it LongRoPE chooses between its two sets of factors.
    """
    if config.kind == "longrope":
        return _longrope(config, length)
    return _FREQUENCIES[config.kind](config)


def rope_tables(
    config: RopeConfig, length: int, device: torch.device | str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Compute cosines and sines for positions 0 to `length - 1`, each `[length, rotary_dim]`.

    The two halves of a table are alike, but that the first half of the sines is negative, as `apply_rope` takes them.

    They are computed in float32 on the CPU and moved, so that every device rotates by the same bits; the products of
    position and frequency are large, and devices differ in how they reduce such arguments.
    """
    positions = torch.arange(length, dtype=torch.float32)
    angles = torch.outer(positions, frequencies(config, length))  # [length, rotary_dim / 2]
    cos, sin = angles.cos() * config.attention_factor, angles.sin() * config.attention_factor
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
    return cos.to(dtype).to(device), sin.to(dtype).to(device)


def query_scales(scale: QueryScale, length: int, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """Compute what queries at positions 0 to `length - 1` are multiplied with, rounded to `dtype`.

    Returns:
        `[length, 1, 1]`, float32 whatever the dtype.
    """
    steps = torch.arange(length, dtype=torch.float32).div(scale.length, rounding_mode="floor")
    return (1 + scale.strength * steps.log1p()).view(-1, 1, 1).to(dtype).float().to(device)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """Rotate query or key heads.

    Args:
        x: `[tokens, heads, head_dim]`.
        cos: of each token's position, `[tokens, 1, rotary_dim]`.
        sin: likewise.
        out: takes the result; it may be `x`.  None for a new tensor.

    Returns:
        `[tokens, heads, head_dim]`; numbers of a head behind the first `rotary_dim` are those of `x`.
    """
    rotary_dim = cos.shape[-1]
    if rotary_dim < x.shape[-1]:
        out = x.clone() if out is None else out if out is x else out.copy_(x)
        _rotate(x.narrow(-1, 0, rotary_dim), cos, sin, out.narrow(-1, 0, rotary_dim))
        return out
    return _rotate(x, cos, sin, out)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None) -> Tensor:
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin, out=out)


# --- frequencies: radians per position, float32 [rotary_dim / 2] --------------------------------------------------


def _wavelength_base(config: RopeConfig) -> Tensor:
    """Return theta^(2i / rotary_dim), the inverse of the unscaled frequencies."""
    exponents = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32) / config.rotary_dim
    return config.theta**exponents


def _default(config: RopeConfig) -> Tensor:
    return 1.0 / _wavelength_base(config)


def _linear(config: RopeConfig) -> Tensor:
    return _default(config) / config.factor


def _ntk_alpha(config: RopeConfig) -> Tensor:
    """Make the base larger, so that long waves are stretched the most ("NTK-aware", arXiv 2309.00071, section 3.1)."""
    dim = config.rotary_dim
    return _default(replace(config, theta=config.theta * config.alpha ** (dim / max(dim - 2, 1))))


def _llama3(config: RopeConfig) -> Tensor:
    """Scale as Llama 3.1 does: long waves are stretched, short ones kept, those between mixed (`apply_scaling`)."""
    frequencies = _default(config)
    turns = config.original_context / (2 * math.pi / frequencies)  # whole turns within the trained context
    kept = (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor)
    mixed = (1 - kept) * frequencies / config.factor + kept * frequencies
    stretched = frequencies / config.factor
    scaled = torch.where(turns < config.low_freq_factor, stretched, mixed)
    return torch.where(turns > config.high_freq_factor, frequencies, scaled)


def _yarn(config: RopeConfig) -> Tensor:
    """Scale as YaRN does, "NTK by parts" (arXiv 2309.00071, section 3.2); the ramp runs over dimensions."""

    def dimension_turning(turns: float) -> float:
        wavelength = config.original_context / (turns * 2 * math.pi)
        return config.rotary_dim * math.log(wavelength) / (2 * math.log(config.theta))

    low, high = dimension_turning(config.beta_fast), dimension_turning(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.rotary_dim - 1)
    if low == high:
        high += 0.001  # a ramp of no width would divide by zero

    pairs = torch.arange(config.rotary_dim // 2, dtype=torch.float32)
    kept = 1 - torch.clamp((pairs - low) / (high - low), 0, 1)
    base = _wavelength_base(config)
    return 1.0 / (config.factor * base) * (1 - kept) + 1.0 / base * kept


def _proportional(config: RopeConfig) -> Tensor:
    """Turn the first pairs alone, by the frequencies that they would have if all turned."""
    turns = torch.arange(config.rotary_dim // 2) < config.rotated_pairs
    return _linear(config) * turns


def _longrope(config: RopeConfig, length: int) -> Tensor:
    """Scale each pair by a number of its own (Ding et al., arXiv 2402.13753).

    The keys of a sequence cannot be rotated anew when it grows beyond the original context.  So what a slot may come to
    hold decides for all that it holds, as in llama.cpp.
    """
    factors = config.long_factor if config.uses_long_factors(length) else config.short_factor
    return 1.0 / (torch.tensor(factors) * _wavelength_base(config))


_FREQUENCIES: dict[RopeKind, Callable[[RopeConfig], Tensor]] = {
    "default": _default,
    "linear": _linear,
    "ntk_alpha": _ntk_alpha,
    "llama3": _llama3,
    "yarn": _yarn,
    "proportional": _proportional,
}
