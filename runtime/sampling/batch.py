"""Parameters of the sampled rows of one step, as numbers that are sent to the device with the step's own.

What no row asks for is neither sent nor computed.  The parameters decide that, never the logits.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.sampling.random_numbers import DRAFT_STREAM, REJECTION_STREAM, TOKEN_STREAM

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from runtime.sampling.masks import MaskPenalties
    from runtime.sampling.params import SamplingParams
    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.sampling.tokens import DraftToken, SampleSpec, TokenDraws, TokenMask

MIN_TEMPERATURE = torch.finfo(torch.float32).tiny  # anything smaller is rounded to 0
MAX_VOCABULARY = 2**24  # no vocabulary has so many tokens
FEW_RANKS = 128  # of top-k, above what models recommend; of fewer tokens a selection is no faster


@dataclass(frozen=True, slots=True)
class LogitEntries:
    """Some entries of the logits: the `rows` and the `tokens` where they are, `[entries]` each."""

    rows: StagedTensor
    tokens: StagedTensor

    @classmethod
    def stage(cls, tokens: Mapping[int, Collection[int]], staging: StagingBuffer) -> LogitEntries:
        """Stage the entries of `tokens`, which has token ids by their row."""
        rows = (array("q", [row]) * len(own) for row, own in tokens.items())
        return cls(staging.ints(*rows), staging.ints(*map(list, tokens.values())))

    @property
    def index(self) -> tuple[torch.Tensor, torch.Tensor]:
        """An index into logits `[rows, vocab]`."""
        return self.rows.tensor, self.tokens.tensor


@dataclass(frozen=True, slots=True)
class RepetitionPenalties:
    """The tokens of contexts, as often as they come there, and the `penalties` of all rows, `[rows]`."""

    entries: LogitEntries
    penalties: StagedTensor


@dataclass(frozen=True, slots=True)
class CountPenalties:
    """The tokens of outputs, each once.

    Attributes:
        counts: how often the output has each, `[entries]`.
        frequency, presence: the penalties of all rows, `[rows]`.
    """

    entries: LogitEntries
    counts: StagedTensor
    frequency: StagedTensor
    presence: StagedTensor


@dataclass(frozen=True, slots=True)
class LogitBiases:
    """Biases that are added to logits: `biases`, `[entries]`."""

    entries: LogitEntries
    biases: StagedTensor


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """The rows in which a grammar decides which tokens may be drawn.

    Attributes:
        index: of the rows, on the device; None for all.
        masks: one for each of them.
        penalties: what these add to logits.
    """

    index: StagedTensor | None
    masks: list[TokenMask]
    penalties: MaskPenalties


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of rows for which the same is to be put in order, `[filtered rows]` each.

    Attributes:
        index: of these rows among the random ones; None for all of them.
        ranks: how many of the likeliest tokens have to be put in order; None for all.
        top_k, top_p: infinity where they are not asked for.
        min_p: 0 where it is not.
    """

    index: StagedTensor | None
    ranks: int | None
    top_k: StagedTensor
    top_p: StagedTensor
    min_p: StagedTensor


@dataclass(frozen=True, slots=True)
class RandomRows:
    """The rows whose token is drawn at random from a distribution.

    These are all but the greedy ones; where `SamplingBatch.draws` draws the others, only those whose distribution is
    asked for, or judges a draft's.

    Attributes:
        rows: their indices among the sampled rows, on the host.
        index: the same, on the device; `[random rows]`, as all that follows.
        temperatures: above 0.
        numbers: uniform in (0, 1), by which the tokens are drawn.
        filters: of the rows that filter, in up to two parts.
    """

    rows: list[int]
    index: StagedTensor
    temperatures: StagedTensor
    numbers: StagedTensor
    filters: list[Filters]


@dataclass(frozen=True, slots=True)
class RejectionRows:
    """The drafts that rejection sampling verifies, `[drafts]` each.

    Attributes:
        index: where they are among the random rows.
        token_ids: what was drafted.
        numbers: uniform in (0, 1), which decide.
        distributions: what each draft was drawn from, `[vocab]`, not normalised.
    """

    index: StagedTensor
    token_ids: StagedTensor
    numbers: StagedTensor
    distributions: list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class LogprobRows:
    """The rows whose log-probabilities are asked for: `rows` on the host, `index` on the device."""

    rows: list[int]
    index: StagedTensor


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """Parameters of a step's sampled rows, with one entry of `specs` and `drafts` each; None is what no row asks for.

    The staged tensors can be read once their buffer was sent.  `draws` draws the tokens of all but `random_rows`; None
    where PyTorch's operations do.
    """

    specs: Sequence[SampleSpec]
    drafts: Sequence[DraftToken | None]
    repetition_penalties: RepetitionPenalties | None
    count_penalties: CountPenalties | None
    logit_biases: LogitBiases | None
    banned_tokens: LogitEntries | None
    masked_rows: MaskedRows | None
    random_rows: RandomRows | None
    rejection_rows: RejectionRows | None
    logprob_rows: LogprobRows | None
    draws: TokenDraws | None = None

    @classmethod
    def stage(
        cls,
        specs: Sequence[SampleSpec],
        drafts: Sequence[DraftToken | None],
        staging: StagingBuffer,
        penalties: MaskPenalties,
        draws: TokenDraws | None = None,
    ) -> SamplingBatch:
        """Put all that is asked for into `staging`.

        Args:
            specs: how the token of each row is drawn.
            drafts: the draft for each row's token, or None; with a distribution only where the temperature is above 0.
            staging: takes the numbers.
            penalties: of masks, on the device.
            draws: draws the tokens that need no distribution; None where PyTorch's operations are to.
        """
        random_rows = _random_rows(specs, drafts, staging, all_of_them=draws is None)
        return cls(
            specs,
            drafts,
            _repetition_penalties(specs, staging),
            _count_penalties(specs, staging),
            _logit_biases(specs, staging),
            _banned_tokens(specs, staging),
            _masked_rows(specs, staging, penalties),
            random_rows,
            None if random_rows is None else _rejection_rows(specs, drafts, random_rows.rows, staging),
            _logprob_rows(specs, staging),
            draws,
        )


def _repetition_penalties(specs: Sequence[SampleSpec], staging: StagingBuffer) -> RepetitionPenalties | None:
    # With repeated tokens: to find them takes the host longer than to send them.
    contexts = {
        row: spec.context for row, spec in enumerate(specs) if spec.params.repetition_penalty != 1 and spec.context
    }
    if not contexts:
        return None
    return RepetitionPenalties(
        LogitEntries.stage(contexts, staging), staging.floats([spec.params.repetition_penalty for spec in specs])
    )


def _count_penalties(specs: Sequence[SampleSpec], staging: StagingBuffer) -> CountPenalties | None:
    counts = {
        row: Counter(spec.context[-spec.generated :])
        for row, spec in enumerate(specs)
        if spec.generated and (spec.params.presence_penalty != 0 or spec.params.frequency_penalty != 0)
    }
    if not counts:
        return None
    return CountPenalties(
        LogitEntries.stage(counts, staging),
        staging.floats(*(list(own.values()) for own in counts.values())),
        staging.floats([spec.params.frequency_penalty for spec in specs]),
        staging.floats([spec.params.presence_penalty for spec in specs]),
    )


def _logit_biases(specs: Sequence[SampleSpec], staging: StagingBuffer) -> LogitBiases | None:
    biases = {row: dict(spec.params.logit_bias) for row, spec in enumerate(specs) if spec.params.logit_bias}
    if not biases:
        return None
    return LogitBiases(
        LogitEntries.stage(biases, staging), staging.floats(*(list(own.values()) for own in biases.values()))
    )


def _banned_tokens(specs: Sequence[SampleSpec], staging: StagingBuffer) -> LogitEntries | None:
    """Stage the tokens that may not be drawn: ends where it is too early, and those that would complete a bad word."""
    banned = {row: own for row, spec in enumerate(specs) if (own := [*_early_ends(spec), *_completions(spec)])}
    return LogitEntries.stage(banned, staging) if banned else None


def _early_ends(spec: SampleSpec) -> Sequence[int]:
    return spec.end_ids if spec.generated < spec.params.min_tokens else ()


def _completions(spec: SampleSpec) -> Iterator[int]:
    """Yield the last token of each bad word whose other tokens end the output."""
    for *before, last in spec.params.bad_words:
        if not before or (spec.generated >= len(before) and list(spec.context[-len(before) :]) == before):
            yield last


def _masked_rows(specs: Sequence[SampleSpec], staging: StagingBuffer, penalties: MaskPenalties) -> MaskedRows | None:
    """Stage which rows have a mask; the masks themselves are computed while the layers run."""
    masks = {row: spec.mask for row, spec in enumerate(specs) if spec.mask is not None}
    if not masks:
        return None
    return MaskedRows(None if len(masks) == len(specs) else staging.ints(masks), list(masks.values()), penalties)


def _random_rows(
    specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None], staging: StagingBuffer, *, all_of_them: bool
) -> RandomRows | None:
    """Stage the rows that are drawn at random: all of them, or those that need a distribution."""
    rows = [
        row
        for row, (spec, draft) in enumerate(zip(specs, drafts, strict=True))
        if spec.params.temperature > 0
        and (all_of_them or spec.for_rejection or (draft is not None and draft.distribution is not None))
    ]
    if not rows:
        return None
    own = [specs[row] for row in rows]
    return RandomRows(
        rows,
        staging.ints(rows),
        staging.floats([max(spec.params.temperature, MIN_TEMPERATURE) for spec in own]),
        staging.floats([spec.number(DRAFT_STREAM if spec.for_rejection else TOKEN_STREAM) for spec in own]),
        _filters([spec.params for spec in own], staging),
    )


def _filters(params: Sequence[SamplingParams], staging: StagingBuffer) -> list[Filters]:
    """Stage the filters: those for which the likeliest few tokens are enough, and the others.

    Which part a row is in depends on its own parameters alone, so that its neighbours change no sum by its rounding.
    """
    filtering = {row: p for row, p in enumerate(params) if p.top_k > 0 or p.top_p < 1 or p.min_p > 0}
    few = {row: p for row, p in filtering.items() if 0 < p.top_k <= FEW_RANKS}
    many = {row: p for row, p in filtering.items() if row not in few}
    parts = [(few, FEW_RANKS), (many, None)]
    return [_filters_of(own, ranks, len(own) == len(params), staging) for own, ranks in parts if own]


def _filters_of(
    params: Mapping[int, SamplingParams], ranks: int | None, are_all: bool, staging: StagingBuffer
) -> Filters:
    own = params.values()
    return Filters(
        None if are_all else staging.ints(params),
        ranks,
        staging.floats([min(p.top_k, MAX_VOCABULARY) if p.top_k > 0 else math.inf for p in own]),
        # A top_p of 1 keeps the tail that vanishes in the rounded sum too, as it does where no row filters.
        staging.floats([p.top_p if p.top_p < 1 else math.inf for p in own]),
        staging.floats([p.min_p for p in own]),
    )


def _rejection_rows(
    specs: Sequence[SampleSpec],
    drafts: Sequence[DraftToken | None],
    random_rows: Sequence[int],
    staging: StagingBuffer,
) -> RejectionRows | None:
    index, token_ids, numbers, distributions = [], [], [], []
    for i, row in enumerate(random_rows):
        draft = drafts[row]
        if draft is not None and draft.distribution is not None:
            index.append(i)
            token_ids.append(draft.token_id)
            numbers.append(specs[row].number(REJECTION_STREAM))
            distributions.append(draft.distribution)
    if not index:
        return None
    return RejectionRows(staging.ints(index), staging.ints(token_ids), staging.floats(numbers), distributions)


def _logprob_rows(specs: Sequence[SampleSpec], staging: StagingBuffer) -> LogprobRows | None:
    # Nobody sees a draft's log-probabilities.
    rows = [row for row, spec in enumerate(specs) if spec.params.logprobs is not None and not spec.for_rejection]
    return LogprobRows(rows, staging.ints(rows)) if rows else None
