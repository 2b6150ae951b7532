"""Streams of hidden states: what is true of them whatever the weights are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.checkpoint.families.norms import LLAMA
from runtime.nn.layers.gemma.altup import AltUp, JoinedStreams, Laurel, SplitStreams
from runtime.nn.layers.norm import NoNorm
from runtime.nn.source import RandomSource

CONFIG: Any = SimpleNamespace(streams=3, hidden_size=8, laurel_rank=2, norms=LLAMA, norm_eps=1e-6)


@pytest.fixture
def source() -> RandomSource:
    return RandomSource("cpu", torch.float32, seed=0)


def rows(seed: int = 0) -> Tensor:
    return 100 * torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))


def test_streams_are_as_long_as_what_they_are_made_of(source: RandomSource) -> None:
    split = SplitStreams(source, CONFIG)(rows())
    assert torch.equal(split[:, 0], rows())
    torch.testing.assert_close(split.norm(dim=-1), rows().norm(dim=-1, keepdim=True).expand(-1, 3))
    alike = JoinedStreams(source, CONFIG, NoNorm())
    alike.projections = [lambda x: x / 7 for _ in alike.projections]  # type: ignore[misc]
    torch.testing.assert_close(alike(rows()[:, None].expand(-1, 3, -1)), rows())


def test_a_layer_that_changes_nothing_corrects_nothing(source: RandomSource) -> None:
    altup, streams = AltUp(source, CONFIG), torch.stack([rows(seed) for seed in range(3)], dim=1)
    first = altup.predict(streams)
    assert not torch.equal(first, rows())
    predicted = streams.clone()
    assert torch.equal(first, predicted[:, 0])
    altup.correct(streams, first)
    assert torch.equal(streams, predicted)
    _, others = altup.correct(streams, first + rows(9))
    changed = (streams - predicted) / rows(9)[:, None]  # by a share for each stream
    torch.testing.assert_close(changed, changed[..., :1].expand_as(changed), atol=1e-3, rtol=1e-3)
    others.add_(1)
    torch.testing.assert_close(streams[:, 1:].transpose(0, 1), others)


def test_the_product_beside_attention_is_of_the_rows(source: RandomSource) -> None:
    hidden, laurel = rows(), Laurel(source, CONFIG)
    laurel(torch.zeros_like(hidden), hidden)
    torch.testing.assert_close(hidden, rows() * 0.5**0.5)
