"""Random weights and activations, and what their products should be."""

from __future__ import annotations

import torch

from runtime.checkpoint.stored import GroupCodes

OUTPUTS, INPUTS = 192, 512


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def draw_codes(
    group: int, outputs: int = OUTPUTS, inputs: int = INPUTS, *, bits: int = 4, zeros: bool = True
) -> GroupCodes:
    """Every code, with scales and zeros as files have them: about as large as each other, zeros of either sign."""
    generator = torch.Generator().manual_seed(group)
    shape = outputs, inputs // group
    return GroupCodes(
        torch.randint(0, 1 << bits, (outputs, inputs), generator=generator, dtype=torch.uint8),
        0.01 + torch.rand(shape, generator=generator) * 0.01,
        torch.randn(shape, generator=generator) * (0.01 if zeros else 0.0),
        group,
        bits,
    )


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The difference as a share of what is expected."""
    return float((found.float() - expected.float()).norm() / expected.float().norm())
