"""Rows of logits and how their tokens are to be drawn, for tests of the sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.sampling.tokens import SampleSpec
from tests.models.sampler_driver import sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.params import SamplingParams


VOCAB = 50


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
