"""Logits to tokens, batched and on the device.

A row's result depends on that row's logits, its parameters, and one uniform number that is a function of its seed and
position alone: never on its neighbours in the batch, nor on how often the request was cancelled and sent again.
Everything a row does not ask for is skipped by looking at the parameters, which are on the host, never at the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch

from runtime.sampling import DRAFT, OWN, TokenLogprobs, uniform
from runtime.step import SampledToken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.sampling import SamplingParams
    from runtime.step import SampleSpec

MOST_LOGPROBS = 20  # alternatives that the OpenAI API gives at most


@dataclass(frozen=True, slots=True)
class Drawn:
    """One row's token.

    Attributes:
        finite: False where the logits were not all finite; the rest then means nothing.
        accepted: the token is the one that was proposed (`runtime.acceptance`).
    """

    token: SampledToken
    finite: bool
    accepted: bool = False


def sample(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[Drawn]:
    """Draw one token per row.

    Args:
        logits: float32 `[rows, vocab]`, as the model gave them; not changed.
        specs: one per row.
    """
    adjusted = adjust(logits, specs)
    return draw(logits, adjusted, weigh(adjusted, specs), specs)[0]


def draw(
    logits: torch.Tensor,
    adjusted: torch.Tensor,
    weights: torch.Tensor,
    specs: Sequence[SampleSpec],
    beside: torch.Tensor | None = None,
) -> tuple[list[Drawn], list[float]]:
    """Pick each row's token and read all of them back, and what is to be known `beside` them.

    Args:
        logits: `[rows, vocab]`, as the model gave them: for what is reported beside a token.
        adjusted: `[rows, vocab]`, of which a greedy row takes the likeliest.
        weights: `[random rows, vocab]`, from which the others are drawn; see `weigh`.
        specs: one per row.
        beside: anything else, `[n]`, that is to be read: reading apart would be another wait for the device.
    """
    finite = logits.sum(-1).isfinite()
    tokens = adjusted.argmax(-1)
    drawn = random_rows(specs)
    if drawn:
        tokens[indices(drawn, logits)] = _invert(weights, [_number(specs[row]) for row in drawn])
    reported = _logprobs(logits, tokens, specs)
    rest = beside if beside is not None else finite[:0]
    numbers = iter(torch.cat([part.flatten().float() for part in (tokens, finite, reported, rest)]).tolist())
    token_ids = [int(number) for number in islice(numbers, len(specs))]  # exact: no vocabulary has 2^24 tokens
    are_finite = [bool(number) for number in islice(numbers, len(specs))]
    logprobs = _told_logprobs(numbers, reported.shape[-1], specs)
    # A view of its row would keep the others' alive for as long.
    sources = {row: weights[i].clone() for i, row in enumerate(drawn) if specs[row].for_rejection}
    tokens_drawn = [
        Drawn(SampledToken(token_ids[row], logprobs[row], sources.get(row)), are_finite[row])
        for row in range(len(specs))
    ]
    return tokens_drawn, list(numbers)


def random_rows(specs: Sequence[SampleSpec]) -> list[int]:
    """The rows whose token is drawn: all but the greedy ones."""
    return [row for row, spec in enumerate(specs) if spec.params.temperature > 0]


def weigh(adjusted: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """What each of `random_rows(specs)` is drawn from: `[random rows, vocab]`, as `distribution` gives it."""
    rows = random_rows(specs)
    if not rows:
        return adjusted[:0]
    return distribution(adjusted[indices(rows, adjusted)], [specs[row].params for row in rows])


def adjust(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """Penalties, logit bias and the ban on early end tokens; `[rows, vocab]`, a copy where anything changes."""
    changed = [row for row, spec in enumerate(specs) if _is_adjusted(spec)]
    if not changed:
        return logits
    logits = logits.clone()
    for row in changed:
        spec = specs[row]
        _penalise(logits[row], spec)
        if spec.params.logit_bias:
            ids, biases = zip(*spec.params.logit_bias, strict=True)
            logits[row, indices(ids, logits)] += torch.tensor(biases, dtype=logits.dtype, device=logits.device)
        if spec.generated < spec.params.min_tokens and spec.end_ids:
            logits[row, indices(spec.end_ids, logits)] = float("-inf")
    return logits


def distribution(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """What a row is drawn from, up to a factor: temperature, then top-k, top-p and min-p.

    Args:
        logits: float32 `[rows, vocab]`, adjusted.
        params: one per row, temperatures above 0.

    Returns:
        `[rows, vocab]`, zero where filtered, not normalised.
    """
    # Subtracting the maximum first keeps a tiny temperature from overflowing to infinity.
    shifted = logits - logits.amax(-1, keepdim=True)
    temperatures = [max(p.temperature, torch.finfo(logits.dtype).tiny) for p in params]  # or they round to 0
    probs = torch.softmax(shifted / column(temperatures, logits), dim=-1)
    if all(p.top_k <= 0 and p.top_p >= 1 and p.min_p <= 0 for p in params):
        return probs
    ordered = probs.sort(dim=-1, descending=True).values
    vocab = probs.shape[-1]
    rank = torch.arange(vocab, device=probs.device)
    in_top_k = rank < column([float(p.top_k if p.top_k > 0 else vocab) for p in params], logits)
    candidates = ordered * in_top_k
    mass_before = candidates.cumsum(-1) - candidates
    # A top_p of 1 keeps the tail that vanishes in the rounded sum too, as it does where no row of the batch filters.
    top_p = column([p.top_p if p.top_p < 1 else math.inf for p in params], logits)
    in_top_p = mass_before < top_p * candidates.sum(-1, keepdim=True)
    in_top_p[:, 0] = True  # the likeliest token stays, also at top_p=0
    in_min_p = ordered >= column([p.min_p for p in params], logits) * ordered[:, :1]
    threshold = ordered.masked_fill(~(in_top_k & in_top_p & in_min_p), 1.0).amin(-1, keepdim=True)
    return probs * (probs >= threshold)


def _invert(weights: torch.Tensor, numbers: list[float]) -> torch.Tensor:
    """Token ids `[rows]`: the first of each row whose cumulated weight exceeds that share of the whole."""
    cumulated = weights.cumsum(-1)
    draws = column(numbers, weights)
    # Tokens of no weight are stepped over.
    return (cumulated <= draws * cumulated[:, -1:]).sum(-1).clamp_(max=weights.shape[-1] - 1)


def _number(spec: SampleSpec) -> float:
    return uniform(seed_of(spec), spec.position, DRAFT if spec.for_rejection else OWN)


def seed_of(spec: SampleSpec) -> int:
    assert spec.params.seed is not None, "the request resolves the seed"
    return spec.params.seed


def _is_adjusted(spec: SampleSpec) -> bool:
    p = spec.params
    return p.penalises or bool(p.logit_bias) or spec.generated < p.min_tokens


def _penalise(logits: torch.Tensor, spec: SampleSpec) -> None:
    """Apply the three penalties to one row `[vocab]`, in place."""
    params = spec.params
    if params.repetition_penalty != 1:
        seen = torch.zeros_like(logits).index_fill_(0, indices(spec.context, logits), 1.0).bool()
        penalty = params.repetition_penalty
        logits.copy_(torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits))
    if (params.presence_penalty != 0 or params.frequency_penalty != 0) and spec.generated:
        output = indices(spec.context[-spec.generated :], logits)
        ones = torch.ones(output.shape, dtype=logits.dtype, device=logits.device)
        counts = torch.zeros_like(logits).scatter_add_(0, output, ones)
        logits -= params.frequency_penalty * counts + params.presence_penalty * (counts > 0)


def _logprobs(logits: torch.Tensor, tokens: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """Under the model's own distribution, of the rows that ask for them: `[rows, 1 + 2 * alternatives]`.

    First the token's own, then those of the likeliest, then their ids.
    """
    wanted = _reporting(specs)
    if not wanted:
        return logits[:0, :1]
    rows = indices(wanted, logits)
    logprobs = torch.log_softmax(logits[rows], dim=-1)
    chosen = logprobs.gather(-1, tokens[rows, None])
    # Not only as many as are asked for here: which of several equal tokens `topk` takes depends on k.
    most = max(MOST_LOGPROBS, *(specs[row].params.logprobs or 0 for row in wanted))
    best = logprobs.topk(min(most, logprobs.shape[-1]), dim=-1)
    return torch.cat((chosen, best.values, best.indices.to(chosen.dtype)), dim=-1)


def _told_logprobs(numbers: Iterator[float], width: int, specs: Sequence[SampleSpec]) -> list[TokenLogprobs | None]:
    """What `_logprobs` has made, as it is reported: one entry per row."""
    found: list[TokenLogprobs | None] = [None] * len(specs)
    for row in _reporting(specs):
        chosen, *best = islice(numbers, width)
        values, ids = best[: width // 2], map(int, best[width // 2 :])
        top = tuple(zip(ids, values, strict=True))
        found[row] = TokenLogprobs(chosen, top[: specs[row].params.logprobs or 0])
    return found


def _reporting(specs: Sequence[SampleSpec]) -> list[int]:
    """The rows whose log-probabilities are asked for; nobody sees a draft's."""
    return [row for row, spec in enumerate(specs) if spec.params.logprobs is not None and not spec.for_rejection]


def indices(values: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """`[values]`, int64, on the device of `like`."""
    return torch.tensor(values, dtype=torch.int64, device=like.device)


def column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    """`[rows, 1]` of host numbers."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
