"""Logits to tokens, batched and on the device.

A row's result depends on that row's logits, its parameters, and one uniform number that is a function of its seed and
position alone: never on its neighbours in the batch, nor on how often the request was cancelled and sent again.
Everything a row does not ask for is skipped by looking at the parameters, which are on the host, never at the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.sampling import SamplingParams, TokenLogprobs, splitmix64
from runtime.step import SampledToken, SampleSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LOGPROBS = 20  # alternatives that the OpenAI API gives at most


@dataclass(frozen=True, slots=True)
class Drawn:
    """One row's token; `finite` is False where the logits were not all finite, and the token then means nothing."""

    token: SampledToken
    finite: bool


def sample(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[Drawn]:
    """Draw one token per row.

    Args:
        logits: float32 `[rows, vocab]`, as the model gave them; not changed.
        specs: one per row.
    """
    finite = logits.sum(-1).isfinite()
    tokens = _pick(adjust(logits, specs), specs)
    token_ids, are_finite = torch.stack((tokens, finite.to(tokens.dtype))).tolist()  # the step's one readback
    logprobs = _logprobs(logits, tokens, specs)
    return [
        Drawn(SampledToken(token_id, logprob), bool(is_finite))
        for token_id, logprob, is_finite in zip(token_ids, logprobs, are_finite, strict=True)
    ]


def uniform(seed: int, position: int) -> float:
    """A number in (0, 1) for this seed and position.

    22 bits and a half: so short of 1 that its float32 product with a total is always below that total.
    """
    bits = splitmix64(splitmix64(seed & ((1 << 64) - 1)) ^ position) >> 42
    return (bits + 0.5) / (1 << 22)


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
            logits[row, _ids(ids, logits)] += torch.tensor(biases, dtype=logits.dtype, device=logits.device)
        if spec.generated < spec.params.min_tokens and spec.end_ids:
            logits[row, _ids(spec.end_ids, logits)] = float("-inf")
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
    probs = torch.softmax(shifted / _column(temperatures, logits), dim=-1)
    if all(p.top_k <= 0 and p.top_p >= 1 and p.min_p <= 0 for p in params):
        return probs
    ordered = probs.sort(dim=-1, descending=True).values
    vocab = probs.shape[-1]
    rank = torch.arange(vocab, device=probs.device)
    in_top_k = rank < _column([float(p.top_k if p.top_k > 0 else vocab) for p in params], logits)
    candidates = ordered * in_top_k
    mass_before = candidates.cumsum(-1) - candidates
    # A top_p of 1 keeps the tail that vanishes in the rounded sum too, as it does where no row of the batch filters.
    top_p = _column([p.top_p if p.top_p < 1 else math.inf for p in params], logits)
    in_top_p = mass_before < top_p * candidates.sum(-1, keepdim=True)
    in_top_p[:, 0] = True  # the likeliest token stays, also at top_p=0
    in_min_p = ordered >= _column([p.min_p for p in params], logits) * ordered[:, :1]
    threshold = ordered.masked_fill(~(in_top_k & in_top_p & in_min_p), 1.0).amin(-1, keepdim=True)
    return probs * (probs >= threshold)


def _pick(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """Token ids `[rows]`: the likeliest where the temperature is 0, else drawn by inverting the distribution."""
    tokens = logits.argmax(-1)
    random_rows = [row for row, spec in enumerate(specs) if spec.params.temperature > 0]
    if not random_rows:
        return tokens
    rows = _ids(random_rows, logits)
    cumulated = distribution(logits[rows], [specs[row].params for row in random_rows]).cumsum(-1)
    draws = _column([_uniform_of(specs[row]) for row in random_rows], logits)
    # The first index whose cumulated mass exceeds the draw; tokens of no mass are stepped over.
    tokens[rows] = (cumulated <= draws * cumulated[:, -1:]).sum(-1).clamp_(max=logits.shape[-1] - 1)
    return tokens


def _uniform_of(spec: SampleSpec) -> float:
    assert spec.params.seed is not None, "the request resolves the seed"
    return uniform(spec.params.seed, spec.position)


def _is_adjusted(spec: SampleSpec) -> bool:
    p = spec.params
    return p.penalises or bool(p.logit_bias) or spec.generated < p.min_tokens


def _penalise(logits: torch.Tensor, spec: SampleSpec) -> None:
    """Apply the three penalties to one row `[vocab]`, in place."""
    params = spec.params
    if params.repetition_penalty != 1:
        seen = torch.zeros_like(logits).index_fill_(0, _ids(spec.context, logits), 1.0).bool()
        penalty = params.repetition_penalty
        logits.copy_(torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits))
    if (params.presence_penalty != 0 or params.frequency_penalty != 0) and spec.generated:
        output = _ids(spec.context[-spec.generated :], logits)
        ones = torch.ones(output.shape, dtype=logits.dtype, device=logits.device)
        counts = torch.zeros_like(logits).scatter_add_(0, output, ones)
        logits -= params.frequency_penalty * counts + params.presence_penalty * (counts > 0)


def _logprobs(logits: torch.Tensor, tokens: torch.Tensor, specs: Sequence[SampleSpec]) -> list[TokenLogprobs | None]:
    """Log-probabilities of the model's own distribution, for the rows that asked for them."""
    wanted = [row for row, spec in enumerate(specs) if spec.params.logprobs is not None]
    found: list[TokenLogprobs | None] = [None] * len(specs)
    if not wanted:
        return found
    rows = _ids(wanted, logits)
    logprobs = torch.log_softmax(logits[rows], dim=-1)
    chosen: list[float] = logprobs.gather(-1, tokens[rows, None])[:, 0].tolist()
    # Not only as many as are asked for here: which of several equal tokens `topk` takes depends on k.
    most = max(MOST_LOGPROBS, *(specs[row].params.logprobs or 0 for row in wanted))
    best = logprobs.topk(min(most, logprobs.shape[-1]), dim=-1)
    values, ids = best.values.tolist(), best.indices.tolist()
    for i, row in enumerate(wanted):
        count = specs[row].params.logprobs or 0
        found[row] = TokenLogprobs(chosen[i], tuple(zip(ids[i][:count], values[i][:count], strict=True)))
    return found


def _ids(values: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64, device=like.device)


def _column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    """`[rows, 1]` of host numbers."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
