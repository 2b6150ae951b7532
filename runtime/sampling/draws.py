"""How the tokens after a step's rows are drawn, in numbers that are sent to the device with the step's own.

What no row asks for is neither sent nor computed.  That is decided here, by the parameters, never by the data.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.sampling.params import DRAFT, OWN, VERDICT, uniform

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runtime.sampling.params import SamplingParams
    from runtime.sampling.parcel import Parcel, Part
    from runtime.sampling.tokens import DraftToken, SampleSpec

LEAST_TEMPERATURE = torch.finfo(torch.float32).tiny  # below it, numbers are rounded to 0
MOST_TOKENS = 2**24  # no vocabulary has so many


@dataclass(frozen=True, slots=True)
class Entries:
    """Some of the scores, `[entries]` each: in which of the rows, and of which tokens."""

    rows: Part
    tokens: Part

    @classmethod
    def of(cls, tokens: Mapping[int, Collection[int]], parcel: Parcel) -> Entries:
        """Of `tokens`, by their row."""
        rows = (array("q", [row]) * len(own) for row, own in tokens.items())
        return cls(parcel.ints(*rows), parcel.ints(*map(list, tokens.values())))

    @property
    def index(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the scores, `[rows, vocab]`."""
        return self.rows.tensor, self.tokens.tensor


@dataclass(frozen=True, slots=True)
class Repetitions:
    """The tokens of contexts, repeated as there, and the `penalties` of all rows, `[rows]`."""

    entries: Entries
    penalties: Part


@dataclass(frozen=True, slots=True)
class Counts:
    """The tokens of outputs, each once, and their `counts`, `[entries]`; the penalties of all rows, `[rows]`."""

    entries: Entries
    counts: Part
    frequency: Part
    presence: Part


@dataclass(frozen=True, slots=True)
class Biases:
    """What is added to scores, `[entries]`."""

    entries: Entries
    biases: Part


@dataclass(frozen=True, slots=True)
class Filters:
    """Of the random rows, `[random rows]` each.  Infinity where top-k or top-p is not asked for."""

    top_k: Part
    top_p: Part
    min_p: Part


@dataclass(frozen=True, slots=True)
class Randomness:
    """The rows whose token is drawn, which are all but the greedy ones; `[random rows]` each.

    Attributes:
        rows, at: which they are, for the host and for the device.
        temperatures: above 0.
        numbers: uniform in (0, 1), by which the tokens are drawn.
        filters: None where nobody filters.
    """

    rows: list[int]
    at: Part
    temperatures: Part
    numbers: Part
    filters: Filters | None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The drafts that rejection sampling judges, `[drafts]` each.

    Attributes:
        at: of which random rows.
        token_ids: what was drafted.
        numbers: uniform in (0, 1), which decide.
        sources: the distributions that they were drawn from.
    """

    at: Part
    token_ids: Part
    numbers: Part
    sources: list[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Reports:
    """The rows whose log-probabilities are asked for, `rows` for the host and `at` for the device."""

    rows: list[int]
    at: Part


@dataclass(frozen=True, slots=True)
class Draws:
    """What a step's sampled rows ask for, `specs` and `drafts` one each; None is what nobody asks for.

    The parts can be read once their parcel is sent.
    """

    specs: Sequence[SampleSpec]
    drafts: Sequence[DraftToken | None]
    repetitions: Repetitions | None
    counts: Counts | None
    biases: Biases | None
    bans: Entries | None
    randomness: Randomness | None
    verdicts: Verdicts | None
    reports: Reports | None

    @classmethod
    def of(cls, specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None], parcel: Parcel) -> Draws:
        """Put all that is asked for into `parcel`.

        Args:
            specs: how the token of each row is drawn.
            drafts: what was drafted for it, or None.  With a distribution only where the temperature is above 0.
        """
        randomness = _randomness(specs, parcel)
        return cls(
            specs,
            drafts,
            _repetitions(specs, parcel),
            _counts(specs, parcel),
            _biases(specs, parcel),
            _bans(specs, parcel),
            randomness,
            None if randomness is None else _verdicts(specs, drafts, randomness.rows, parcel),
            _reports(specs, parcel),
        )


def _repetitions(specs: Sequence[SampleSpec], parcel: Parcel) -> Repetitions | None:
    # As they are: to find what is repeated takes the host longer than to send it.
    contexts = {
        row: spec.context for row, spec in enumerate(specs) if spec.params.repetition_penalty != 1 and spec.context
    }
    if not contexts:
        return None
    return Repetitions(Entries.of(contexts, parcel), parcel.floats([spec.params.repetition_penalty for spec in specs]))


def _counts(specs: Sequence[SampleSpec], parcel: Parcel) -> Counts | None:
    counts = {
        row: Counter(spec.context[-spec.generated :])
        for row, spec in enumerate(specs)
        if spec.generated and (spec.params.presence_penalty != 0 or spec.params.frequency_penalty != 0)
    }
    if not counts:
        return None
    return Counts(
        Entries.of(counts, parcel),
        parcel.floats(*(list(own.values()) for own in counts.values())),
        parcel.floats([spec.params.frequency_penalty for spec in specs]),
        parcel.floats([spec.params.presence_penalty for spec in specs]),
    )


def _biases(specs: Sequence[SampleSpec], parcel: Parcel) -> Biases | None:
    biases = {row: dict(spec.params.logit_bias) for row, spec in enumerate(specs) if spec.params.logit_bias}
    if not biases:
        return None
    return Biases(Entries.of(biases, parcel), parcel.floats(*(list(own.values()) for own in biases.values())))


def _bans(specs: Sequence[SampleSpec], parcel: Parcel) -> Entries | None:
    """Of end tokens that would come too early."""
    bans = {
        row: spec.end_ids for row, spec in enumerate(specs) if spec.generated < spec.params.min_tokens and spec.end_ids
    }
    return Entries.of(bans, parcel) if bans else None


def _randomness(specs: Sequence[SampleSpec], parcel: Parcel) -> Randomness | None:
    rows = [row for row, spec in enumerate(specs) if spec.params.temperature > 0]
    if not rows:
        return None
    own = [specs[row] for row in rows]
    return Randomness(
        rows,
        parcel.ints(rows),
        parcel.floats([max(spec.params.temperature, LEAST_TEMPERATURE) for spec in own]),
        parcel.floats([_number(spec, DRAFT if spec.for_rejection else OWN) for spec in own]),
        _filters([spec.params for spec in own], parcel),
    )


def _filters(params: Sequence[SamplingParams], parcel: Parcel) -> Filters | None:
    if all(p.top_k <= 0 and p.top_p >= 1 and p.min_p <= 0 for p in params):
        return None
    return Filters(
        parcel.floats([min(p.top_k, MOST_TOKENS) if p.top_k > 0 else math.inf for p in params]),
        # A top_p of 1 keeps the tail that vanishes in the rounded sum too, as it does where no row filters.
        parcel.floats([p.top_p if p.top_p < 1 else math.inf for p in params]),
        parcel.floats([p.min_p for p in params]),
    )


def _verdicts(
    specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None], random_rows: Sequence[int], parcel: Parcel
) -> Verdicts | None:
    at, token_ids, numbers, sources = [], [], [], []
    for i, row in enumerate(random_rows):
        draft = drafts[row]
        if draft is not None and draft.distribution is not None:
            at.append(i)
            token_ids.append(draft.token_id)
            numbers.append(_number(specs[row], VERDICT))
            sources.append(draft.distribution)
    if not at:
        return None
    return Verdicts(parcel.ints(at), parcel.ints(token_ids), parcel.floats(numbers), sources)


def _reports(specs: Sequence[SampleSpec], parcel: Parcel) -> Reports | None:
    # Nobody sees a draft's.
    rows = [row for row, spec in enumerate(specs) if spec.params.logprobs is not None and not spec.for_rejection]
    return Reports(rows, parcel.ints(rows)) if rows else None


def _number(spec: SampleSpec, stream: int) -> float:
    assert spec.params.seed is not None, "the request resolves the seed"
    return uniform(spec.params.seed, spec.position, stream)
