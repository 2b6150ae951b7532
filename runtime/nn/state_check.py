"""Kernels for few rows of recurrent layers beside PyTorch's operations on the same device, in small random layers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.recurrent_config import (
    GatedDeltaConfig,
    Mamba2Config,
    ShortConvConfig,
    distinct_recurrences,
)
from runtime.devices.single_rows.check import ROUNDINGS, TOLERANCE, WrongRows
from runtime.kv.cache import KVCache
from runtime.kv.states import StateBuffers
from runtime.nn.layers.batch import LayerRows
from runtime.nn.layers.gated_delta import GatedDelta
from runtime.nn.layers.mamba2 import Mamba2
from runtime.nn.layers.recurrent import StateRows
from runtime.nn.layers.short_conv import ShortConv
from runtime.nn.source import RandomSource
from runtime.sampling.staging import StagingBuffer
from runtime.step.step import Segment

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.single_rows.states import StateKernels

HIDDEN = 16
READ, WRITTEN = 3, 7  # buffers that rows go on from, and those that they leave, which come behind them
# One that goes on, one that begins, a fork of the first, one whose states nobody wants, and one that verifies drafts.
SEGMENTS = (
    Segment(0, 5, [1], state=0, next_states=((1, 3),)),
    Segment(1, 0, [1] * 4, next_states=((2, 4), (4, 5))),
    Segment(2, 5, [1], state=0, next_states=((1, 6),)),
    Segment(3, 9, [1, 1], state=1),
    Segment(4, 7, [1, 1, 1], state=2, next_states=((1, 7), (2, 8), (3, 9))),
)


class _Wide(RandomSource):
    """Weights so large that all of them matter."""

    def _fill(self, place: Tensor) -> Tensor:
        return place.normal_(0.0, 0.5, generator=self._generator)


def check_states(kernels: StateKernels, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> float:
    """Compare the kernels with PyTorch's operations, in a layer of each kind that a model has.

    Args:
        kernels: for that type, and the model's sizes.
        config: the model's.
        device: where both are run.
        dtype: of the rows.

    Returns:
        The largest error of what becomes of the rows, or of their states, as a share of its size.

    Raises:
        WrongRows: they differ by more than rounding.
    """
    tolerance, worst = max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps), 0.0
    for own in distinct_recurrences(config.recurrent):
        alone = replace(config, num_layers=1, recurrent=(own,))
        mixer = _mixer(_Wide(device, dtype, 1), own, config.norm_eps)
        expected, given = (_results(mixer, alone, device, dtype, which) for which in (None, kernels))
        for name, reference in expected.items():
            error = float((given[name].float() - reference.float()).norm() / reference.float().norm())
            if not error <= tolerance:
                raise WrongRows(f"they differ from PyTorch's operations by {error:.1e}: {name}")
            worst = max(worst, error)
    return worst


def _mixer(
    source: RandomSource, own: ShortConvConfig | GatedDeltaConfig | Mamba2Config, eps: float
) -> ShortConv | GatedDelta | Mamba2:
    match own:
        case ShortConvConfig():
            return ShortConv(source, own, HIDDEN, 0)
        case GatedDeltaConfig():
            return GatedDelta(source, own, HIDDEN, eps, 0)
        case Mamba2Config():
            return Mamba2(source, own, HIDDEN, eps, 0)


def _results(
    mixer: ShortConv | GatedDelta | Mamba2,
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    kernels: StateKernels | None,
) -> dict[str, Tensor]:
    """Return what becomes of rows and of each part of the states; what nobody is to read is not a number."""
    generator = torch.Generator().manual_seed(1)
    buffers = StateBuffers(config, count=READ + WRITTEN, device=device, dtype=dtype)
    parts = [buffers.part(0, index) for index in range(len(config.states[0] or ()))]
    for part in parts:
        part[:READ].copy_(torch.randn(part[:READ].shape, generator=generator))
        part[READ:-1].fill_(math.nan)
    staging, ranges, first = StagingBuffer(), list[range](), 0
    for segment in SEGMENTS:
        ranges.append(range(first, first + len(segment.token_ids)))
        first = ranges[-1].stop
    states = StateRows.stage(buffers, SEGMENTS, ranges, staging, kernels)
    staging.send(device)
    hidden = torch.randn(first, HIDDEN, generator=generator).to(device, dtype)
    batch = LayerRows(segments=list(SEGMENTS), ranges=ranges, hidden=hidden, rotations=[], masks={}, states=states)
    kv = KVCache(config, slots=1, context=1, device=device, dtype=dtype)
    mixed = mixer(hidden, batch, kv)
    return {"rows": mixed, **{f"states, part {index + 1}": part for index, part in enumerate(parts)}}
