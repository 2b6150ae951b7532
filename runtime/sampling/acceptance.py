"""Acceptance of drafts by the target: speculative decoding that does not change what is generated.

A draft without a distribution is accepted where the target, drawing its own token with its own random number as it
would without any draft, draws the same one.  The output is then plain decoding's, token for token.  That covers greedy
decoding, prompt lookup, and requests whose client named the seed: their drafts are drawn with the very number that the
target uses.

A draft with a distribution was drawn by a number of its own, and is verified by rejection sampling (Leviathan et al.,
"Fast inference from transformers via speculative decoding", arXiv 2211.17192).  No rule accepts more: 1 less the total
variation distance of the two distributions.  The tokens differ from plain decoding's, but their distribution does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.sampling.sampler import adjust_logits, random_distributions, sample

if TYPE_CHECKING:
    from runtime.sampling.batch import RejectionRows, SamplingBatch
    from runtime.sampling.sampler import Drawn


def verify(logits: torch.Tensor, batch: SamplingBatch, also_read: torch.Tensor | None = None) -> Drawn:
    """Draw one token per row, each as likely as without drafts; the row says whether it is the one that was drafted.

    A row whose draft is not accepted has the token to go on with; the drafts after it are void.

    Args:
        logits: the target's, float32 `[rows, vocab]`, as the model gave them; not changed.
        batch: how the target draws, and what was drafted.
        also_read: other numbers that the host is to read, `[n]`.
    """
    adjusted = adjust_logits(logits, batch)
    distributions = random_distributions(adjusted, batch)
    if batch.rejection_rows is not None:
        _reject(distributions, batch.rejection_rows)
    return sample(logits, adjusted, distributions, batch, also_read)


def rejection(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return what each row's token is to be drawn from, so that tokens are distributed as `p`.

    A draft d stands with probability min(1, p(d) / q(d)): then the result is d alone, otherwise max(p - q, 0).

    Args:
        p: the target's distribution, `[rows, vocab]`; each row sums to 1.
        q: what the draft was drawn from, likewise.
        drafted: token ids, `[rows, 1]`.
        numbers: uniform in (0, 1), `[rows, 1]`, independent of the draft and of the draw to come.

    Returns:
        `[rows, vocab]`, not normalised.
    """
    # As a product, which needs no division by what underflowed to 0 in q; what p filters out never stands.
    stands = numbers * q.gather(-1, drafted) < p.gather(-1, drafted)
    residual = (p - q).clamp(min=0)
    # The residual is empty only where p and q differ by rounding alone.
    residual = torch.where(residual.sum(-1, keepdim=True) > 0, residual, p)
    return torch.where(stands, torch.zeros_like(p).scatter(-1, drafted, 1.0), residual)


def normalised(distributions: torch.Tensor) -> torch.Tensor:
    """Return `[rows, vocab]` divided so that each row sums to 1."""
    return distributions / distributions.sum(-1, keepdim=True)


def _reject(distributions: torch.Tensor, rows: RejectionRows) -> None:
    """Apply rejection sampling to `distributions`, `[random rows, vocab]`, in place."""
    index = rows.index.tensor
    p, q = normalised(distributions[index]), normalised(torch.stack(rows.distributions))
    distributions[index] = rejection(p, q, rows.token_ids.column, rows.numbers.column)
