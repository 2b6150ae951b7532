"""Norms against those of the families that have them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from runtime.nn.layers.norm import LayerNorm, NoNorm, Norm, RMSNorm
from tests.fakes.devices.mps import MPS, fake_mps

SIZE, EPS = 48, 1e-3


def _draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _pair(kind: str, *shape: int) -> tuple[Norm, Any]:
    """Ours and theirs, with one weight."""
    weight = _draw(*shape, seed=1)
    classes: dict[str, tuple[Norm, Any]] = {
        "rms": (RMSNorm(weight, EPS), LlamaRMSNorm),
        "offset": (RMSNorm(weight, EPS, offset=1.0), Gemma3RMSNorm),
        "layer": (LayerNorm(weight, EPS), CohereLayerNorm),
    }
    ours, their_class = classes[kind]
    theirs = their_class(shape, eps=EPS)
    theirs.weight.data = weight
    return ours, theirs


@pytest.mark.parametrize("kind", ["rms", "offset", "layer"])
@torch.inference_mode()
def test_norms_are_theirs(kind: str) -> None:
    ours, theirs = _pair(kind, SIZE)
    x = 3 * _draw(5, 2, SIZE, seed=2) + 1
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("kind", ["rms", "offset", "layer"])
@torch.inference_mode()
def test_each_head_may_have_a_weight(kind: str) -> None:
    ours, theirs = _pair(kind, 3, SIZE)
    x = _draw(5, 3, SIZE, seed=3)
    torch.testing.assert_close(ours(x), theirs(x))


def test_sums_with_the_offset_are_not_rounded() -> None:
    """1.001 in bfloat16 would be 1."""
    x = _draw(4, SIZE, seed=4).bfloat16()
    weight = torch.full((SIZE,), 1e-3)
    exact = x.float() / (x.float().square().mean(-1, keepdim=True) + EPS).sqrt() * 1.001
    assert torch.equal(RMSNorm(weight, EPS, offset=1.0)(x), exact.bfloat16())


@pytest.mark.parametrize("shape", [(SIZE,), (3, SIZE)])
@pytest.mark.parametrize("kind", [RMSNorm, LayerNorm])
def test_a_weight_may_be_of_more_bits_than_rows_on_a_gpu(kind: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401
    with fake_mps():
        norm = kind(torch.empty(shape, device=MPS), EPS)
        x = torch.empty(5, 3, SIZE, device=MPS, dtype=torch.bfloat16)
        y = norm(x)
        assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)


def test_no_norm_is_nothing() -> None:
    x = _draw(4, SIZE, seed=5)
    assert NoNorm()(x) is x
    assert NoNorm().nbytes == 0
