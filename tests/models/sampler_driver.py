"""The sampler by hand: rows' parameters, on the host, and their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from runtime.sampling import acceptance, sampler
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.masks import MaskPenalties
from runtime.sampling.params import SamplingParams
from runtime.sampling.sampler import SampledRow
from runtime.sampling.staging import StagingBuffer
from runtime.sampling.tokens import DraftToken, SampleSpec


def sent(
    specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None] | None = None, device: torch.device | str = "cpu"
) -> SamplingBatch:
    """Return what `specs` ask for, and the drafts beside them if there are any, on `device`."""
    staging, on = StagingBuffer(), torch.device(device)
    batch = SamplingBatch.stage(specs, drafts or [None] * len(specs), staging, MaskPenalties(on))
    staging.send(on)
    return batch


def sample(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[SampledRow]:
    """One token per row of `logits`, `[rows, vocab]`, where nothing was proposed."""
    batch = sent(specs, device=logits.device)
    adjusted = sampler.adjust_logits(logits, batch)
    return sampler.sample(logits, adjusted, sampler.random_distributions(adjusted, batch), batch).read()[0]


def verify(logits: torch.Tensor, specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None]) -> list[SampledRow]:
    """One token per row of `logits`, `[rows, vocab]`."""
    return acceptance.verify(logits, sent(specs, drafts, logits.device)).read()[0]


def adjust(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """`logits`, `[rows, vocab]`, penalised, biased, and without end tokens that come too early."""
    greedy = [replace(spec, params=replace(spec.params, temperature=0)) for spec in specs]
    return sampler.adjust_logits(logits, sent(greedy, device=logits.device))


def distribution(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Return what rows of adjusted `logits`, `[rows, vocab]`, are drawn from at temperatures above 0; unnormalised."""
    random_rows = sent([SampleSpec(replace(p, seed=0), 0, 0) for p in params]).random_rows
    assert random_rows is not None
    return sampler.distribution(logits, random_rows)
