"""Logits to tokens, batched and on the device.

A row's result depends on that row's logits, its parameters, and one uniform number that is a function of its seed and
position alone: never on its neighbours in the batch, nor on how often the request was cancelled and sent again.
All that comes from the host was sent before (`runtime.sampling.batch`), and what no row asks for is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch

from runtime.sampling.staging import Readback
from runtime.sampling.tokens import SampledToken, TokenLogprobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.sampling.batch import (
        CountPenalties,
        Filters,
        MaskedRows,
        RandomRows,
        RepetitionPenalties,
        SamplingBatch,
    )

MAX_LOGPROBS = 20  # alternatives, the OpenAI API's own bound


@dataclass(frozen=True, slots=True)
class SampledRow:
    """One row's token.

    Attributes:
        finite: False where the logits were not all finite; the rest then means nothing.
        accepted: the token is the one that was drafted (`runtime.sampling.acceptance`).
    """

    token: SampledToken
    finite: bool
    accepted: bool = False


class Drawn:
    """Tokens drawn for a step's rows, and what else the host is to know: all of it on the device until it is read.

    Attributes:
        tokens: ids, int64 `[rows]`.

    Args:
        batch: what the rows asked for.
        tokens: see there.
        sums: of the rows' logits, `[rows]`.
        reported: `token_logprobs` of those rows that ask for them.
        distributions: what the random rows were drawn from, `[random rows, vocab]`.
        also_read: other numbers, `[n]`: a second read would be a second wait.
    """

    def __init__(
        self,
        batch: SamplingBatch,
        tokens: torch.Tensor,
        sums: torch.Tensor,
        reported: torch.Tensor,
        distributions: torch.Tensor,
        also_read: torch.Tensor,
    ) -> None:
        self.tokens = tokens
        self._batch = batch
        self._width = reported.shape[-1]
        self._distributions = distributions
        self._numbers: torch.Tensor | Readback = torch.cat(
            [part.flatten().float() for part in (tokens, sums, reported, also_read)]
        )

    @classmethod
    def nothing(cls, batch: SamplingBatch, also_read: torch.Tensor) -> Drawn:
        """Return what there is of a step of which no row is drawn for."""
        none = also_read[:0]
        return cls(batch, none, none, none[:, None], none, also_read)

    def send(self) -> None:
        """Begin to send all to the host: the device may be given more before it is read."""
        assert isinstance(self._numbers, torch.Tensor), "it is sent once"
        self._numbers = Readback(self._numbers)

    def read(self) -> tuple[list[SampledRow], list[float]]:
        """Wait for the device, and return an entry per row, and the numbers of `also_read`."""
        specs, random_rows, rows = self._batch.specs, self._batch.random_rows, len(self._batch.specs)
        numbers = iter(self._numbers.tolist())
        token_ids = [int(number) for number in islice(numbers, rows)]  # exact: no vocabulary has 2^24 tokens
        are_finite = [math.isfinite(number) for number in islice(numbers, rows)]
        logprobs = _parse_logprobs(numbers, self._width, self._batch)
        # Cloned, for a view of one row would keep the memory of all rows.
        drawn_from = {
            row: self._distributions[i].clone()
            for i, row in enumerate([] if random_rows is None else random_rows.rows)
            if specs[row].for_rejection
        }
        sampled = []
        for row, draft in enumerate(self._batch.drafts):
            token = SampledToken(token_ids[row], logprobs[row], drawn_from.get(row))
            sampled.append(SampledRow(token, are_finite[row], draft is not None and draft.token_id == token.token_id))
        return sampled, list(numbers)


def sample(
    logits: torch.Tensor,
    adjusted: torch.Tensor,
    distributions: torch.Tensor,
    batch: SamplingBatch,
    also_read: torch.Tensor | None = None,
) -> Drawn:
    """Pick each row's token, on the device.

    Args:
        logits: `[rows, vocab]`, as the model gave them: for the log-probabilities that are reported.
        adjusted: `[rows, vocab]`, of which a greedy row takes the likeliest, and `batch.draws` draws.
        distributions: `[random rows, vocab]`, from which the others are drawn; see `random_distributions`.
        batch: what the rows ask for.
        also_read: other numbers that the host is to read, `[n]`.
    """
    random_rows = batch.random_rows
    sums = logits.sum(-1)  # finite only if every logit is
    tokens = adjusted.argmax(-1) if batch.draws is None else batch.draws.draw(adjusted, batch.specs)
    if random_rows is not None:
        tokens[random_rows.index.tensor] = _invert(distributions, random_rows.numbers.column)
    reported = _logprobs(logits, tokens, batch)
    return Drawn(batch, tokens, sums, reported, distributions, sums[:0] if also_read is None else also_read)


def random_distributions(adjusted: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
    """Return what each random row is drawn from, `[random rows, vocab]`, not normalised."""
    if batch.random_rows is None:
        return adjusted[:0]
    return distribution(adjusted[batch.random_rows.index.tensor], batch.random_rows)


def adjust_logits(logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
    """Apply penalties, logit bias, the bans on early end tokens and bad words, and grammars.

    Masks of grammars are waited for here, once the device was given all that comes before.

    Returns:
        `[rows, vocab]`, a copy where anything changes.
    """
    entries = batch.repetition_penalties, batch.count_penalties, batch.logit_biases, batch.banned_tokens
    if any(part is not None for part in entries):
        logits = logits.clone()
    if batch.repetition_penalties is not None:
        _penalise_repetitions(logits, batch.repetition_penalties)
    if batch.count_penalties is not None:
        _penalise_counts(logits, batch.count_penalties)
    if batch.logit_biases is not None:
        logits[batch.logit_biases.entries.index] += batch.logit_biases.biases.tensor
    if batch.banned_tokens is not None:
        logits[batch.banned_tokens.index] = float("-inf")
    return logits if batch.masked_rows is None else _masked(logits, batch.masked_rows)


def distribution(logits: torch.Tensor, random_rows: RandomRows) -> torch.Tensor:
    """Apply temperature, then top-k, top-p and min-p.

    Args:
        logits: float32 `[random rows, vocab]`, adjusted.
        random_rows: what these rows ask for.

    Returns:
        `[random rows, vocab]`, zero where filtered, not normalised.
    """
    # Subtracting the maximum first keeps a tiny temperature from overflowing to infinity.
    shifted = logits - logits.amax(-1, keepdim=True)
    probs = torch.softmax(shifted / random_rows.temperatures.column, dim=-1)
    for filters in random_rows.filters:
        if filters.index is None:
            probs = _filtered(probs, filters)
        else:
            probs[filters.index.tensor] = _filtered(probs[filters.index.tensor], filters)
    return probs


def _filtered(probs: torch.Tensor, filters: Filters) -> torch.Tensor:
    """Return `[filtered rows, vocab]` with zeros in place of what is filtered."""
    # A sort of a whole vocabulary takes a CPU longer than many a model's layers (bench/LOG.md).
    is_few = filters.ranks is not None and filters.ranks < probs.shape[-1]
    ordered = (probs.topk(filters.ranks or 0) if is_few else probs.sort(dim=-1, descending=True)).values
    ranks = torch.arange(ordered.shape[-1], device=probs.device)
    in_top_k = ranks < filters.top_k.column
    candidates = ordered * in_top_k
    mass_before = candidates.cumsum(-1) - candidates
    # Tokens with less mass before them than asked are counted, not marked: where sums are not monotonic (`_invert`),
    # one of them may stand far behind the others.  The likeliest token stays, also at top_p=0.
    reaching = (mass_before < filters.top_p.column * candidates.sum(-1, keepdim=True)).sum(-1, keepdim=True)
    in_top_p = ranks < reaching.clamp_(min=1)
    in_min_p = ordered >= filters.min_p.column * ordered[:, :1]
    threshold = ordered.masked_fill(~(in_top_k & in_top_p & in_min_p), 1.0).amin(-1, keepdim=True)
    return probs * (probs >= threshold)


def _invert(distributions: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Draw by inversion: token ids `[rows]`, the first whose cumulated weight exceeds `numbers`' share of the whole.

    Tokens of no weight are stepped over where sums grow with each token.  CUDA adds up floats in parts and in any
    order, so that a sum may be less than the one before it, and a token of no weight may be met.  Then the likeliest is
    drawn in its place.

    Args:
        distributions: `[rows, vocab]`, not normalised.
        numbers: uniform in (0, 1), `[rows, 1]`.
    """
    cumulated = distributions.cumsum(-1)
    tokens = (cumulated <= numbers * cumulated[:, -1:]).sum(-1).clamp_(max=distributions.shape[-1] - 1)
    has_weight = distributions.gather(-1, tokens[:, None])[:, 0] > 0
    return torch.where(has_weight, tokens, distributions.argmax(-1))


def _penalise_repetitions(logits: torch.Tensor, repetitions: RepetitionPenalties) -> None:
    """Divide or multiply `[rows, vocab]`, in place; a token that comes twice is given the same logit twice."""
    rows, _ = index = repetitions.entries.index
    entries, penalties = logits[index], repetitions.penalties.tensor[rows]
    logits[index] = torch.where(entries > 0, entries / penalties, entries * penalties)


def _penalise_counts(logits: torch.Tensor, counts: CountPenalties) -> None:
    """Apply presence and frequency penalties to `[rows, vocab]`, in place."""
    rows, _ = index = counts.entries.index
    logits[index] -= counts.frequency.tensor[rows] * counts.counts.tensor + counts.presence.tensor[rows]


def _masked(logits: torch.Tensor, masked: MaskedRows) -> torch.Tensor:
    """Return `[rows, vocab]` without what grammars forbid."""
    rows = masked.penalties.rows(masked.masks, logits.shape[-1])
    if masked.index is not None:
        return logits.index_add(0, masked.index.tensor, torch.stack(rows))
    if all(row is rows[0] for row in rows):
        return logits + rows[0]
    return torch.stack(rows).add_(logits)


def _logprobs(logits: torch.Tensor, tokens: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
    """Compute log-probabilities under the model's own distribution: `token_logprobs` of the rows that ask for them."""
    if batch.logprob_rows is None:
        return logits[:0, :1]
    rows = batch.logprob_rows.index.tensor
    most = max(batch.specs[row].params.logprobs or 0 for row in batch.logprob_rows.rows)
    return token_logprobs(logits[rows], tokens[rows], most)


def _parse_logprobs(numbers: Iterator[float], width: int, batch: SamplingBatch) -> list[TokenLogprobs | None]:
    """Take what `_logprobs` computed, rows of `width`, from the numbers that were read; one entry per sampled row."""
    found: list[TokenLogprobs | None] = [None] * len(batch.specs)
    for row in [] if batch.logprob_rows is None else batch.logprob_rows.rows:
        found[row] = parse_logprobs(islice(numbers, width), batch.specs[row].params.logprobs or 0)
    return found


def token_logprobs(logits: torch.Tensor, tokens: torch.Tensor, alternatives: int) -> torch.Tensor:
    """Compute how likely tokens are, and which are the likeliest.

    Args:
        logits: float32 `[rows, vocab]`.
        tokens: ids, `[rows]`.
        alternatives: how many of the likeliest are asked for at most.

    Returns:
        `[rows, logprob_width(alternatives, vocab)]`: the token's own log-probability, then those of the likeliest
        tokens, then the ids of these.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(-1, tokens[:, None])
    if not alternatives:
        return chosen
    best = logprobs.topk(logprob_width(alternatives, logits.shape[-1]) // 2, dim=-1)
    return torch.cat((chosen, best.values, best.indices.to(chosen.dtype)), dim=-1)


def logprob_width(alternatives: int, vocab_size: int) -> int:
    """Return how many numbers `token_logprobs` gives for a row."""
    # At least MAX_LOGPROBS, however few are asked for: which of several equal tokens `topk` takes depends on k.
    return 1 + 2 * min(max(MAX_LOGPROBS, alternatives), vocab_size) if alternatives else 1


def parse_logprobs(numbers: Iterable[float], alternatives: int) -> TokenLogprobs:
    """Return what one row of `token_logprobs` says, with so many of the likeliest tokens."""
    chosen, *best = numbers
    values, ids = best[: len(best) // 2], map(int, best[len(best) // 2 :])
    return TokenLogprobs(chosen, tuple(zip(ids, values, strict=True))[:alternatives])
