"""Batch for the sampler: what rows ask for, and nothing for those that ask for nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import torch

from runtime.sampling.batch import FEW_RANKS, SamplingBatch
from runtime.sampling.masks import MaskPenalties
from runtime.sampling.params import SamplingParams
from runtime.sampling.staging import StagingBuffer
from runtime.sampling.tokens import DraftToken, SampleSpec
from tests.models.sampler_driver import sent

if TYPE_CHECKING:
    from collections.abc import Sequence

GREEDY = SamplingParams(temperature=0)
WHOLE = SamplingParams(seed=1)


def _asked(spec: SampleSpec, draft: DraftToken | None = None) -> list[str]:
    """Return what two rows ask for, of which one is greedy and asks for nothing."""
    batch = sent([SampleSpec(GREEDY, 9, 0), spec], [None, draft])
    names = [field.name for field in fields(batch) if field.name not in ("specs", "drafts")]
    return [name for name in names if getattr(batch, name) is not None]


def test_only_what_is_asked_for_is_there() -> None:
    source = torch.ones(50)
    drafted = SampleSpec(WHOLE, 9, 0)
    cases: list[tuple[dict[str, object], list[str]]] = [
        ({}, []),
        ({"top_k": 5, "top_p": 0.5, "min_p": 0.1}, []),  # the likeliest token passes all filters
        ({"repetition_penalty": 1.1}, ["repetition_penalties"]),
        ({"frequency_penalty": 0.5}, ["count_penalties"]),
        ({"presence_penalty": 0.5}, ["count_penalties"]),
        ({"logit_bias": ((1, 2.0),)}, ["logit_biases"]),
        ({"min_tokens": 5}, ["banned_tokens"]),
        ({"min_tokens": 2}, []),  # which there are
        ({"logprobs": 0}, ["logprob_rows"]),
        ({"temperature": 1.0}, ["random_rows"]),
    ]
    for asked, there in cases:
        params = SamplingParams(**{"temperature": 0, "seed": 1} | asked)  # type: ignore[arg-type]
        assert _asked(SampleSpec(params, 9, 2, [1, 2, 2], end_ids=(3,)), DraftToken(5)) == there, asked
    assert _asked(drafted, DraftToken(5, source)) == ["random_rows", "rejection_rows"]
    assert _asked(drafted, DraftToken(5)) == ["random_rows"]


def test_where_others_draw_only_what_needs_a_distribution_is_staged() -> None:
    """A draft that rejection sampling will judge, and one that it judges."""
    judged, plain = DraftToken(5, torch.ones(50)), SampleSpec(WHOLE, 9, 0)
    specs = [plain, replace(plain, for_rejection=True), SampleSpec(GREEDY, 9, 0), plain, plain]
    staging = StagingBuffer()
    batch = SamplingBatch.stage(
        specs, [None, None, None, judged, DraftToken(5)], staging, MaskPenalties(torch.device("cpu")), NeverAsked()
    )
    assert batch.random_rows is not None
    assert batch.random_rows.rows == [1, 3]
    assert batch.rejection_rows is not None
    staging.send(torch.device("cpu"))
    assert batch.rejection_rows.index.tensor.tolist() == [1]


class NeverAsked:
    """Draws no token."""

    def draw(self, logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
        """Fail."""
        raise AssertionError


def test_where_nothing_ends_a_text_nothing_is_banned() -> None:
    assert _asked(SampleSpec(SamplingParams(temperature=0, min_tokens=5), 9, 2)) == []


def test_before_the_first_token_nothing_is_penalised() -> None:
    penalties = SamplingParams(temperature=0, repetition_penalty=1.5, presence_penalty=1.0, frequency_penalty=1.0)
    assert _asked(SampleSpec(penalties, 0, 0)) == []
    assert _asked(SampleSpec(penalties, 2, 0, [1, 2])) == ["repetition_penalties"]


def test_filters_are_sent_where_a_row_that_is_drawn_filters() -> None:
    few, many = SamplingParams(seed=1, top_k=FEW_RANKS), SamplingParams(seed=1, top_k=FEW_RANKS + 1, min_p=0.5)
    share = SamplingParams(seed=1, top_p=0.5)
    cases: list[tuple[list[SamplingParams], list[tuple[list[int] | None, int | None]]]] = [
        ([WHOLE, WHOLE], []),
        ([WHOLE, few], [([1], FEW_RANKS)]),
        ([few, few], [(None, FEW_RANKS)]),
        ([share, many], [(None, None)]),
        ([many, few, WHOLE, share], [([1], FEW_RANKS), ([0, 3], None)]),
    ]
    for params, expected in cases:
        random_rows = sent([SampleSpec(GREEDY, 9, 0), *(SampleSpec(one, 9, 0) for one in params)]).random_rows
        assert random_rows is not None
        found = [(part.index and part.index.tensor.tolist(), part.ranks) for part in random_rows.filters]
        assert found == expected


def test_tokens_are_counted_in_the_output_alone() -> None:
    params = SamplingParams(temperature=0, frequency_penalty=0.5)
    counts = sent([SampleSpec(GREEDY, 9, 0), SampleSpec(params, 9, 4, [7, 7, 8, 9, 8, 8])]).count_penalties
    assert counts is not None
    rows, tokens = counts.entries.index
    assert rows.tolist() == [1, 1]
    assert dict(zip(tokens.tolist(), counts.counts.tensor.tolist(), strict=True)) == {8: 3, 9: 1}
