"""Logits to tokens, batched and on the device.

A row's result depends on that row's logits, its parameters, and one uniform number that is a function of its seed and
position alone: never on its neighbours in the batch, nor on how often the request was cancelled and sent again.
All that comes from the host was sent before (`runtime.sampling.draws`), and what no row asks for is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch

from runtime.sampling.tokens import SampledToken, TokenLogprobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.sampling.draws import Counts, Draws, Randomness, Repetitions

MOST_LOGPROBS = 20  # alternatives that the OpenAI API gives at most


@dataclass(frozen=True, slots=True)
class Drawn:
    """One row's token.

    Attributes:
        finite: False where the logits were not all finite; the rest then means nothing.
        accepted: the token is the one that was proposed (`runtime.sampling.acceptance`).
    """

    token: SampledToken
    finite: bool
    accepted: bool = False


def draw(
    logits: torch.Tensor,
    adjusted: torch.Tensor,
    weights: torch.Tensor,
    draws: Draws,
    beside: torch.Tensor | None = None,
) -> tuple[list[Drawn], list[float]]:
    """Pick each row's token and read all of them back, and what is to be known `beside` them.

    Args:
        logits: `[rows, vocab]`, as the model gave them: for what is reported beside a token.
        adjusted: `[rows, vocab]`, of which a greedy row takes the likeliest.
        weights: `[random rows, vocab]`, from which the others are drawn; see `weigh`.
        draws: how.
        beside: anything else, `[n]`, that is to be read: reading apart would be another wait for the device.
    """
    rows, randomness = len(draws.specs), draws.randomness
    finite = logits.sum(-1).isfinite()
    tokens = adjusted.argmax(-1)
    if randomness is not None:
        tokens[randomness.at.tensor] = _invert(weights, randomness.numbers.column)
    reported = _logprobs(logits, tokens, draws)
    rest = beside if beside is not None else finite[:0]
    numbers = iter(torch.cat([part.flatten().float() for part in (tokens, finite, reported, rest)]).tolist())
    token_ids = [int(number) for number in islice(numbers, rows)]  # exact: no vocabulary has 2^24 tokens
    are_finite = [bool(number) for number in islice(numbers, rows)]
    logprobs = _told_logprobs(numbers, reported.shape[-1], draws)
    # A view of its row would keep the others' alive for as long.
    random_rows = [] if randomness is None else randomness.rows
    sources = {row: weights[i].clone() for i, row in enumerate(random_rows) if draws.specs[row].for_rejection}
    tokens_drawn = [
        Drawn(SampledToken(token_ids[row], logprobs[row], sources.get(row)), are_finite[row]) for row in range(rows)
    ]
    return tokens_drawn, list(numbers)


def weigh(adjusted: torch.Tensor, draws: Draws) -> torch.Tensor:
    """What each random row is drawn from: `[random rows, vocab]`, as `distribution` gives it."""
    if draws.randomness is None:
        return adjusted[:0]
    return distribution(adjusted[draws.randomness.at.tensor], draws.randomness)


def adjust(logits: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Penalties, logit bias and the ban on early end tokens; `[rows, vocab]`, a copy where anything changes."""
    if all(asked is None for asked in (draws.repetitions, draws.counts, draws.biases, draws.bans)):
        return logits
    logits = logits.clone()
    if draws.repetitions is not None:
        _penalise_repetitions(logits, draws.repetitions)
    if draws.counts is not None:
        _penalise_counts(logits, draws.counts)
    if draws.biases is not None:
        logits[draws.biases.entries.index] += draws.biases.biases.tensor
    if draws.bans is not None:
        logits[draws.bans.index] = float("-inf")
    return logits


def distribution(logits: torch.Tensor, randomness: Randomness) -> torch.Tensor:
    """What rows are drawn from, up to a factor: temperature, then top-k, top-p and min-p.

    Args:
        logits: float32 `[random rows, vocab]`, adjusted.
        randomness: of the same rows.

    Returns:
        `[random rows, vocab]`, zero where filtered, not normalised.
    """
    # Subtracting the maximum first keeps a tiny temperature from overflowing to infinity.
    shifted = logits - logits.amax(-1, keepdim=True)
    probs = torch.softmax(shifted / randomness.temperatures.column, dim=-1)
    filters = randomness.filters
    if filters is None:
        return probs
    ordered = probs.sort(dim=-1, descending=True).values
    ranks = torch.arange(probs.shape[-1], device=probs.device)
    in_top_k = ranks < filters.top_k.column
    candidates = ordered * in_top_k
    mass_before = candidates.cumsum(-1) - candidates
    # As many of the likeliest as there are with too little before them: where sums are not monotonic (see `_invert`),
    # one far behind them may be among these.  The likeliest token stays, also at top_p=0.
    reaching = (mass_before < filters.top_p.column * candidates.sum(-1, keepdim=True)).sum(-1, keepdim=True)
    in_top_p = ranks < reaching.clamp_(min=1)
    in_min_p = ordered >= filters.min_p.column * ordered[:, :1]
    threshold = ordered.masked_fill(~(in_top_k & in_top_p & in_min_p), 1.0).amin(-1, keepdim=True)
    return probs * (probs >= threshold)


def _invert(weights: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Token ids `[rows]`: the first whose cumulated weight exceeds the row's share of the whole, `[rows, 1]`.

    Tokens of no weight are stepped over, where sums grow with each token.  CUDA adds up floats in parts and in any
    order, so that a sum may be less than the one before it, and then one of them may be met: the likeliest is drawn in
    its place.
    """
    cumulated = weights.cumsum(-1)
    tokens = (cumulated <= numbers * cumulated[:, -1:]).sum(-1).clamp_(max=weights.shape[-1] - 1)
    has_weight = weights.gather(-1, tokens[:, None])[:, 0] > 0
    return torch.where(has_weight, tokens, weights.argmax(-1))


def _penalise_repetitions(logits: torch.Tensor, repetitions: Repetitions) -> None:
    """Divide or multiply `[rows, vocab]`, in place; a token that comes twice is given the same score twice."""
    rows, _ = index = repetitions.entries.index
    scores, penalties = logits[index], repetitions.penalties.tensor[rows]
    logits[index] = torch.where(scores > 0, scores / penalties, scores * penalties)


def _penalise_counts(logits: torch.Tensor, counts: Counts) -> None:
    """Apply presence and frequency penalties to `[rows, vocab]`, in place."""
    rows, _ = index = counts.entries.index
    logits[index] -= counts.frequency.tensor[rows] * counts.counts.tensor + counts.presence.tensor[rows]


def _logprobs(logits: torch.Tensor, tokens: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Under the model's own distribution, of the rows that ask for them: `[rows, 1 + 2 * alternatives]`.

    First the token's own, then those of the likeliest, then their ids.
    """
    if draws.reports is None:
        return logits[:0, :1]
    rows = draws.reports.at.tensor
    logprobs = torch.log_softmax(logits[rows], dim=-1)
    chosen = logprobs.gather(-1, tokens[rows, None])
    # Not only as many as are asked for here: which of several equal tokens `topk` takes depends on k.
    most = max(MOST_LOGPROBS, *(draws.specs[row].params.logprobs or 0 for row in draws.reports.rows))
    best = logprobs.topk(min(most, logprobs.shape[-1]), dim=-1)
    return torch.cat((chosen, best.values, best.indices.to(chosen.dtype)), dim=-1)


def _told_logprobs(numbers: Iterator[float], width: int, draws: Draws) -> list[TokenLogprobs | None]:
    """What `_logprobs` has made, as it is reported: one entry per row."""
    found: list[TokenLogprobs | None] = [None] * len(draws.specs)
    for row in [] if draws.reports is None else draws.reports.rows:
        chosen, *best = islice(numbers, width)
        values, ids = best[: width // 2], map(int, best[width // 2 :])
        top = tuple(zip(ids, values, strict=True))
        found[row] = TokenLogprobs(chosen, top[: draws.specs[row].params.logprobs or 0])
    return found
