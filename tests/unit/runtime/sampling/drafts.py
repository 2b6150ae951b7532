"""Drafts to be accepted or rejected, and wrong rules for that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from hypothesis import strategies as st

from runtime.sampling import acceptance, batch
from runtime.sampling.params import SamplingParams
from runtime.sampling.random_numbers import DRAFT_STREAM, TOKEN_STREAM
from runtime.sampling.tokens import DraftToken, SampleSpec
from tests.models.chi_square import filtered
from tests.models.sampler_driver import sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.sampler import SampledRow


GREEDY = SamplingParams(temperature=0)
END_IDS = (3, 4)


def spec_of(
    params: SamplingParams, position: int = 0, *, output: Sequence[int] = (), draft: bool = False
) -> SampleSpec:
    """Return how a token at that position is to be drawn, after that output."""
    return SampleSpec(params, position, len(output), (1, 2, 5, *output), END_IDS, draft)


def ids_of(drawn: Sequence[SampledRow]) -> list[int]:
    """Return the ids that were drawn."""
    return [one.token.token_id for one in drawn]


def proposals_of(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[DraftToken]:
    """Return what a draft model with these logits proposes, to be verified by rejection sampling."""
    drawn = sample(logits, [replace(spec, for_rejection=True) for spec in specs])
    return [DraftToken(one.token.token_id, one.token.distribution) for one in drawn]


weights = st.lists(st.sampled_from([0.0, 0.0, 1e-45, 1e-30, 1e-7, 0.1, 0.1, 1.0, 7.0]), min_size=6, max_size=6)


def exact(logits: torch.Tensor, params: SamplingParams) -> list[float]:
    """Return what one row of logits is drawn from."""
    biased = logits.flatten().tolist()
    for token_id, bias in params.logit_bias:
        biased[token_id] += bias
    return filtered(biased, params)


def one_hot(p: torch.Tensor, drafted: torch.Tensor) -> torch.Tensor:
    """Return the distribution in which the draft alone has a probability."""
    return torch.zeros_like(p).scatter(-1, drafted, 1.0)


def always_accept(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Accept every draft."""
    return one_hot(p, drafted)


def by_p_alone(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Accept by the target's probability alone."""
    return torch.where(numbers < p.gather(-1, drafted), one_hot(p, drafted), (p - q).clamp(min=0))


def residual_of_p(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Draw from the target after a rejection, and not from what is left of it."""
    return torch.where(numbers * q.gather(-1, drafted) < p.gather(-1, drafted), one_hot(p, drafted), p)


def residual_of_others(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Draw from the target after a rejection, but for the draft."""
    stands = numbers * q.gather(-1, drafted) < p.gather(-1, drafted)
    return torch.where(stands, one_hot(p, drafted), p * (1 - one_hot(p, drafted)))


# What is replaced, and by what.
WRONG: dict[str, tuple[Any, str, Any]] = {
    "always": (acceptance, "rejection", always_accept),
    "by p alone": (acceptance, "rejection", by_p_alone),
    "residual of p": (acceptance, "rejection", residual_of_p),
    "residual of all others": (acceptance, "rejection", residual_of_others),
    "decision and draw by one number": (batch, "REJECTION_STREAM", TOKEN_STREAM),
    "decision and draft by one number": (batch, "REJECTION_STREAM", DRAFT_STREAM),
}
