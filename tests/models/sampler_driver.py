"""The sampler by hand: rows' parameters, on the host, and their logits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from runtime.sampling import acceptance, sampler
from runtime.sampling.draws import Draws
from runtime.sampling.parcel import Parcel
from runtime.sampling.tokens import SampleSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.params import SamplingParams
    from runtime.sampling.sampler import Drawn
    from runtime.sampling.tokens import DraftToken


def sent(
    specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None] | None = None, device: torch.device | str = "cpu"
) -> Draws:
    """What `specs` ask for, and the drafts beside them if there are any, on `device`."""
    parcel = Parcel()
    draws = Draws.of(specs, drafts or [None] * len(specs), parcel)
    parcel.send(torch.device(device))
    return draws


def sample(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[Drawn]:
    """One token per row of `logits`, `[rows, vocab]`, where nothing was proposed."""
    draws = sent(specs, device=logits.device)
    adjusted = sampler.adjust(logits, draws)
    return sampler.draw(logits, adjusted, sampler.weigh(adjusted, draws), draws)[0]


def accept(logits: torch.Tensor, specs: Sequence[SampleSpec], drafts: Sequence[DraftToken | None]) -> list[Drawn]:
    """One token per row of `logits`, `[rows, vocab]`."""
    return acceptance.accept(logits, sent(specs, drafts, logits.device))[0]


def adjust(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
    """`logits`, `[rows, vocab]`, penalised, biased, and without end tokens that come too early."""
    greedy = [replace(spec, params=replace(spec.params, temperature=0)) for spec in specs]
    return sampler.adjust(logits, sent(greedy, device=logits.device))


def distribution(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """What rows of adjusted `logits`, `[rows, vocab]`, are drawn from at temperatures above 0; not normalised."""
    randomness = sent([SampleSpec(replace(p, seed=0), 0, 0) for p in params]).randomness
    assert randomness is not None
    return sampler.distribution(logits, randomness)
