"""Which drafts the target agrees to: speculative decoding that leaves no trace in what is said.

A draft that stands for itself is accepted where the target, drawing its own token with its own random number as it
would without any draft, draws the same one.  The output is then plain decoding's, token for token.  That covers
greedy decoding, prompt lookup, and requests whose client named the seed, whose drafts are drawn with the very number
that the target uses.

A draft drawn from a distribution of its own, by a number of its own, is verified by rejection sampling (Leviathan et
al., "Fast inference from transformers via speculative decoding", arXiv 2211.17192).  It accepts the most that any rule
can: one less the total variation distance.  The tokens are other ones than plain decoding's, but just as likely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.sampling.sampler import Drawn, adjust, draw, weigh

if TYPE_CHECKING:
    from runtime.sampling.draws import Draws, Verdicts


def accept(logits: torch.Tensor, draws: Draws, beside: torch.Tensor | None = None) -> tuple[list[Drawn], list[float]]:
    """Draw one token per row, each as likely as without drafts; accepted is what came out as it was proposed.

    A row whose draft is not accepted holds the token to go on with; what was drafted after it is void.

    Args:
        logits: the target's, float32 `[rows, vocab]`, as the model gave them; not changed.
        draws: how the target draws, and what was proposed.
        beside: other numbers to be read from the device, `[n]`; returned behind the rows.
    """
    adjusted = adjust(logits, draws)
    weights = weigh(adjusted, draws)
    if draws.verdicts is not None:
        _judge(weights, draws.verdicts)
    drawn, rest = draw(logits, adjusted, weights, draws, beside)
    judged = [
        Drawn(one.token, one.finite, draft is not None and draft.token_id == one.token.token_id)
        for one, draft in zip(drawn, draws.drafts, strict=True)
    ]
    return judged, rest


def rejection(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """What each row's token is to be drawn from, so that drafts and draws together are distributed as `p`.

    A draft d stands with probability min(1, p(d) / q(d)): then it alone.  Otherwise max(p - q, 0).

    Args:
        p: the target's distribution, `[rows, vocab]`; each row sums to 1.
        q: what the draft was drawn from, likewise.
        drafted: token ids, `[rows, 1]`.
        numbers: uniform in (0, 1), `[rows, 1]`, independent of the draft and of the draw to come.

    Returns:
        `[rows, vocab]`, not normalised.
    """
    # As a product: what underflowed to 0 in q needs no division, and what p filters out never stands.
    stands = numbers * q.gather(-1, drafted) < p.gather(-1, drafted)
    residual = (p - q).clamp(min=0)
    # Nothing is left of it only where p and q differ by rounding alone.
    residual = torch.where(residual.sum(-1, keepdim=True) > 0, residual, p)
    return torch.where(stands, torch.zeros_like(p).scatter(-1, drafted, 1.0), residual)


def _judge(weights: torch.Tensor, verdicts: Verdicts) -> None:
    """Apply rejection sampling to `weights`, `[random rows, vocab]`, in place."""
    at = verdicts.at.tensor
    p, q = _normalised(weights[at]), _normalised(torch.stack(verdicts.sources))
    weights[at] = rejection(p, q, verdicts.token_ids.column, verdicts.numbers.column)


def _normalised(weights: torch.Tensor) -> torch.Tensor:
    return weights / weights.sum(-1, keepdim=True)
