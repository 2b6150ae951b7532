"""Outputs of one step's rows besides KV, computed on the device and read with the step's other results.

Logits of all rows of a chunk would be gigabytes: 2048 rows of a vocabulary of 128 thousand are one.  So they are
computed in pieces of `PIECE_BYTES`, each of which is reduced to a few numbers a row before the next one is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import torch

from runtime.sampling.sampler import logprob_width, parse_logprobs, token_logprobs
from runtime.step.prompt_rows.wanted import Pooling, RowsGiven, TokenScore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.step.prompt_rows.wanted import RowsWanted

PIECE_BYTES = 32 * 2**20
"""Of float32 logits that exist at a time."""


class Mark(Protocol):
    """A cancel as the device thread sees it: `runtime.step.step.CancelMark`."""

    @property
    def at(self) -> float | None:
        """Time at which it came; None while it has not."""


@dataclass(slots=True)
class SegmentRows:
    """One segment's part of a step's prompt rows.

    Attributes:
        rows: of the step's tensors.
        wanted: of them.
        mark: of its generation: what is cancelled is not scored any further.
        targets: `wanted.targets` on the device.
        skipped: it was cancelled before all of it was computed.
    """

    rows: range
    wanted: RowsWanted
    mark: Mark
    targets: StagedTensor
    skipped: bool = False


@dataclass(slots=True)
class PromptRows:
    """The rows of a step that are to give something besides KV.

    Attributes:
        parts: by the segment's place in the step.
    """

    parts: dict[int, SegmentRows] = field(default_factory=dict)

    @classmethod
    def stage(cls, wanted: Sequence[tuple[range, RowsWanted | None, Mark]], staging: StagingBuffer) -> PromptRows:
        """Put what the segments' rows are to give into `staging`; there is an entry for each segment."""
        return cls(
            {
                place: SegmentRows(rows, asked, mark, staging.ints(asked.targets))
                for place, (rows, asked, mark) in enumerate(wanted)
                if asked is not None
            }
        )

    def compute(
        self,
        states: torch.Tensor,
        logits_of: Callable[[torch.Tensor], torch.Tensor],
        vocab_size: int,
        piece_encoded: Callable[[], object],
    ) -> list[torch.Tensor]:
        """Compute what is wanted.

        Args:
            states: after the final norm, `[rows, hidden]` of the step.
            logits_of: makes float32 `[rows, vocab]` of some of them.
            vocab_size: logits of a row.
            piece_encoded: called after each piece of logits: it takes about as long as a layer, so the host is not to
                run ahead of it.

        Returns:
            Float32 numbers `[n]` each, for `parse`.
        """
        numbers: list[torch.Tensor] = []
        for part in self.parts.values():
            own = states[part.rows.start : part.rows.stop]
            scores = list(self._score(part, own, logits_of, max(1, PIECE_BYTES // (4 * vocab_size)), piece_encoded))
            if part.skipped:
                continue
            if part.wanted.pooling is Pooling.MEAN:
                numbers.append(own.sum(0, dtype=torch.float32))
            elif part.wanted.pooling is Pooling.LAST:
                numbers.append(own[-1].float())
            numbers += scores
        return numbers

    def _score(
        self,
        part: SegmentRows,
        states: torch.Tensor,
        logits_of: Callable[[torch.Tensor], torch.Tensor],
        piece: int,
        piece_encoded: Callable[[], object],
    ) -> Iterator[torch.Tensor]:
        """Yield the numbers of a segment's scores, piece by piece, as long as it is not cancelled."""
        for first in range(0, len(part.wanted.targets), piece):
            if part.mark.at is not None:
                part.skipped = True
                return
            targets = part.targets.tensor[first : first + piece]
            logits = logits_of(states[first : first + len(targets)])  # [rows of the piece, vocab]
            own = logits.gather(-1, targets[:, None])
            ranks = (logits > own).sum(-1, keepdim=True, dtype=torch.float32)  # exact: no vocabulary has 2^24 tokens
            logprobs = token_logprobs(logits, targets, part.wanted.alternatives)
            yield torch.cat((ranks, logprobs), dim=-1).flatten()
            piece_encoded()

    def parse(self, numbers: Sequence[float], hidden: int, vocab_size: int) -> dict[int, RowsGiven | None]:
        """Return what the segments' rows gave, by their place in the step, from the numbers that were read.

        Args:
            numbers: of `compute`, in order.
            hidden: size of a state.
            vocab_size: logits of a row.

        Returns:
            None where a number is not finite; no entry for what was cancelled.
        """
        given: dict[int, RowsGiven | None] = {}
        left = iter(numbers)
        for place, part in self.parts.items():
            if not part.skipped:
                given[place] = _parse(part, left, hidden, vocab_size)
        return given


def _parse(part: SegmentRows, numbers: Iterator[float], hidden: int, vocab_size: int) -> RowsGiven | None:
    wanted = part.wanted
    state = tuple(islice(numbers, hidden)) if wanted.pooling is not None else ()
    scores = []
    for _ in wanted.targets:
        rank = int(next(numbers)) + 1
        row = islice(numbers, logprob_width(wanted.alternatives, vocab_size))
        scores.append(TokenScore(parse_logprobs(row, wanted.alternatives), rank))
    if not all(map(math.isfinite, (*state, *(score.logprobs.logprob for score in scores)))):
        return None
    return RowsGiven(state, len(part.rows) if wanted.pooling is Pooling.MEAN else 1, tuple(scores))
