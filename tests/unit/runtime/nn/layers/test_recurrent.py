"""Rows that are computed together go on from the same states, and leave the same, as each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from runtime.checkpoint.open import open_checkpoint
from runtime.kv.states import StateBuffers
from runtime.nn.layers.recurrent import StateRows
from runtime.nn.recurrent.ssm import ssm_scan, ssm_step
from runtime.sampling.staging import StagingBuffer
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES

CPU = torch.device("cpu")
SEGMENTS = (
    Segment(0, 5, [1], state=0, next_states=((1, 2),)),
    Segment(1, 0, range(6), next_states=((2, 3), (5, 4))),
    Segment(2, 5, [1], state=0, next_states=((1, 5),)),  # a fork of the first
    Segment(3, 9, [1], state=1),  # whose state nobody wants
    Segment(4, 0, [1], next_states=((1, 6),)),
    Segment(5, 3, range(3), state=1, next_states=((1, 7), (2, 8), (3, 9))),
)
ROWS = sum(len(segment.token_ids) for segment in SEGMENTS)


@pytest.fixture
def buffers(tmp_path: Path) -> StateBuffers:
    FAMILIES["granite-hybrid"](tmp_path)
    made = StateBuffers(open_checkpoint(tmp_path).config, count=10, device=CPU, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    for index in (0, 1):
        made.part(0, index)[:-1] = torch.randn(made.part(0, index)[:-1].shape, generator=generator)
    return made


def _staged(buffers: StateBuffers, segments: Sequence[Segment]) -> StateRows:
    staging, ranges, start = StagingBuffer(), [], 0
    for segment in segments:
        ranges.append(range(start, start + len(segment.token_ids)))
        start = ranges[-1].stop
    rows = StateRows.stage(buffers, segments, ranges, staging)
    staging.send(CPU)
    return rows


def _run(buffers: StateBuffers, segments: Sequence[Segment], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve rows, `[rows, 224]`, and run a state-space model over them."""
    generator = torch.Generator().manual_seed(2)
    weight, a, d = (torch.randn(shape, generator=generator) for shape in ((224, 1, 4), (8,), (8,)))
    states = _staged(buffers, segments)
    convolved = states.convolve(0, rows, weight, None)
    x, b, c = convolved.split_with_sizes([128, 48, 48], dim=-1)
    parts = x.view(-1, 8, 16), rows[:, :8].abs(), b.view(-1, 2, 24), c.view(-1, 2, 24)
    ruled = states.recur(
        0,
        parts,
        parts[0],
        lambda x, time, b, c, before: ssm_step(x, time, -a.exp(), b, c, d, before),
        lambda x, time, b, c, before: ssm_scan(x, time, -a.exp(), b, c, d, before),
    )
    return convolved, ruled


def test_rows_of_a_step_are_as_those_of_each_segment_by_itself(buffers: StateBuffers) -> None:
    rows = torch.randn(ROWS, 224, generator=torch.Generator().manual_seed(3))
    before = [buffers.part(0, index).clone() for index in (0, 1)]
    assert _staged(buffers, SEGMENTS).singles == 3
    together = _run(buffers, SEGMENTS, rows)
    left = [buffers.part(0, index).clone() for index in (0, 1)]
    for index in (0, 1):
        assert torch.equal(left[index][[0, 1, -1]], before[index][[0, 1, -1]])  # what they went on from
        buffers.part(0, index)[:] = before[index]
    pieces = rows.split_with_sizes([len(segment.token_ids) for segment in SEGMENTS])
    alone = [_run(buffers, [segment], own) for segment, own in zip(SEGMENTS, pieces, strict=True)]
    for joint, apart in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(joint, torch.cat(apart))
    for index in (0, 1):
        torch.testing.assert_close(left[index], buffers.part(0, index))
        assert not torch.equal(left[index], before[index])
