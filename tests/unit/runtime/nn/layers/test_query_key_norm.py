"""Norms of heads: what of a row is one vector, and which weight it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from runtime.checkpoint.open import open_checkpoint
from runtime.nn.layers.query_key_norm import read_query_key_norm
from runtime.nn.source import ShapeSource
from runtime.nn.stored_source import StoredSource
from tests.models.checkpoints import FAMILIES

HEADS, KV_HEADS, DIM = 4, 2, 16
PREFIX = "model.layers.1.self_attn"


def _rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _layer_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight


@pytest.mark.parametrize(("family", "joint"), [("qwen3-tied", False), ("cohere-qk-norm", False), ("olmo2", True)])
def test_vectors_are_heads_or_all_of_them(family: str, joint: bool, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    tensors, config = checkpoint.tensors(), checkpoint.config
    norm = read_query_key_norm(StoredSource(tensors, "cpu", torch.float32).under(PREFIX), config, 1)
    assert norm is not None
    heads = 3 * torch.randn(5, HEADS + KV_HEADS, DIM, generator=torch.Generator().manual_seed(1)) + 1
    textbook = _layer_norm if config.norms.kind == "layer" else _rms
    normed = norm(heads)
    for name, own, found in (
        ("q_norm", heads[:, :HEADS], normed[:, :HEADS]),
        ("k_norm", heads[:, HEADS:], normed[:, HEADS:]),
    ):
        weight = tensors[f"{PREFIX}.{name}.weight"].expand()
        expected = textbook(own.flatten(1) if joint else own, weight, config.norm_eps).view_as(own)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("family", ["qwen3-tied", "cohere-qk-norm", "olmo2"])
def test_bytes_are_those_of_the_file(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    norm = read_query_key_norm(ShapeSource(), checkpoint.config, 1)
    assert norm is not None
    names = [f"{PREFIX}.{name}.weight" for name in ("q_norm", "k_norm")]
    assert norm.nbytes == sum(checkpoint.tensors()[name].num_bytes for name in names)


def test_a_family_without(tmp_path: Path) -> None:
    FAMILIES["qwen3-tied"](tmp_path)
    config = replace(open_checkpoint(tmp_path).config, qk_norm=None)
    assert read_query_key_norm(ShapeSource(), config, 1) is None
