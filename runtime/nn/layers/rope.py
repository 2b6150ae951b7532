"""Rotary position embeddings (Su et al., arXiv 2104.09864) in the layout of Hugging Face checkpoints.

The rotated pairs are `(i, i + head_dim / 2)`, as those checkpoints' query and key rows are ordered for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.rope_config import RopeConfig, RopeKind


def frequencies(config: RopeConfig) -> Tensor:
    """Return the angle by which each pair turns from one position to the next, `[head_dim / 2]`, float32."""
    return _FREQUENCIES[config.kind](config)


def rope_tables(
    config: RopeConfig, length: int, device: torch.device | str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Compute cosines and sines for positions 0 to `length - 1`, each `[length, head_dim]`.

    The two halves of a table are alike, but that the first half of the sines is negative, as `apply_rope` takes them.

    They are computed in float32 on the CPU and moved, so that every device rotates by the same bits; the products of
    position and frequency are large, and devices differ in how they reduce such arguments.
    """
    positions = torch.arange(length, dtype=torch.float32)
    angles = torch.outer(positions, frequencies(config))  # [length, head_dim / 2]
    cos, sin = angles.cos() * config.attention_factor, angles.sin() * config.attention_factor
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
    return cos.to(dtype).to(device), sin.to(dtype).to(device)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """Rotate query or key heads.

    Args:
        x: `[tokens, heads, head_dim]`.
        cos: of each token's position, `[tokens, 1, head_dim]`.
        sin: likewise.
        out: takes the result; it may be `x`.  None for a new tensor.

    Returns:
        `[tokens, heads, head_dim]`.
    """
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin, out=out)


# --- frequencies: radians per position, float32 [head_dim / 2] ----------------------------------------------------


def _wavelength_base(config: RopeConfig) -> Tensor:
    """Return theta^(2i / head_dim), the inverse of the unscaled frequencies."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    return config.theta**exponents


def _default(config: RopeConfig) -> Tensor:
    return 1.0 / _wavelength_base(config)


def _linear(config: RopeConfig) -> Tensor:
    return _default(config) / config.factor


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
        return config.head_dim * math.log(wavelength) / (2 * math.log(config.theta))

    low, high = dimension_turning(config.beta_fast), dimension_turning(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    if low == high:
        high += 0.001  # a ramp of no width would divide by zero

    pairs = torch.arange(config.head_dim // 2, dtype=torch.float32)
    kept = 1 - torch.clamp((pairs - low) / (high - low), 0, 1)
    base = _wavelength_base(config)
    return 1.0 / (config.factor * base) * (1 - kept) + 1.0 / base * kept


_FREQUENCIES: dict[RopeKind, Callable[[RopeConfig], Tensor]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
