"""Rows of logits and how their tokens are to be drawn, for tests of the sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from runtime.sampling.tokens import SampleSpec
from tests.models.sampler_driver import sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.params import SamplingParams


VOCAB = 50
FILTERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 1.9},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": VOCAB},
    {"top_k": 10 * VOCAB},
    {"top_p": 0.0},
    {"top_p": 1e-9},
    {"top_p": 0.3},
    {"top_p": 0.9},
    {"top_p": 0.999},
    {"min_p": 1.0},
    {"min_p": 0.05},
    {"min_p": 1e-9},
    {"top_k": 8, "top_p": 0.7},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.2},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.01},
]
"""Settings of each filter, alone and together."""


def random_logits(rows: int, *, vocab: int = VOCAB, seed: int = 0, ties: bool = False) -> torch.Tensor:
    """Return `[rows, vocab]`; with `ties`, many are equal."""
    logits = 3 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))
    return logits.round() if ties else logits


def spec_of(
    params: SamplingParams, position: int = 0, *, output: Sequence[int] = (), prompt: Sequence[int] = ()
) -> SampleSpec:
    """Return how a token at that position is to be drawn."""
    return SampleSpec(params, position, len(output), (*prompt, *output), end_ids=(3, 4))


def token_of(logits: torch.Tensor, spec: SampleSpec) -> int:
    """Return the token that is drawn from one row."""
    return sample(logits, [spec])[0].token.token_id
