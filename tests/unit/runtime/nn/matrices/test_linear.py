"""Formats of a weight matrix without loss: the same products as the plain one's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.nn.matrices import linear
from runtime.nn.matrices.int8 import WeightInt8
from runtime.nn.matrices.linear import (
    BlockedMatrix,
    Linear,
    PlainMatrix,
    WeightFormats,
    has_bfloat16_products,
    has_onednn,
    lossless_format,
)
from runtime.nn.weights import random_weights
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import CPU

needs_onednn = pytest.mark.skipif(not has_onednn(CPU), reason="this PyTorch has no oneDNN for x86")
needs_bfloat16 = pytest.mark.skipif(not has_bfloat16_products(CPU), reason="oneDNN has no bfloat16 on this processor")


def _weight(outputs: int, inputs: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed)).to(dtype)


@needs_onednn
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=needs_bfloat16)])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("biased", [False, True])
def test_blocks_give_the_plain_products(dtype: torch.dtype, rows: int, biased: bool) -> None:
    weight, x = _weight(96, 40, dtype), _weight(rows, 40, dtype, seed=1)
    bias = _weight(1, 96, dtype, seed=2)[0] if biased else None
    y = BlockedMatrix(weight, bias)(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y, PlainMatrix(weight, bias)(x))


def test_the_outputs_of_several_matrices_follow_one_another() -> None:
    first, second = PlainMatrix(_weight(3, 8, torch.float32), torch.ones(3)), WeightInt8(torch.ones(2, 8), None)
    joined, x = Linear(first, second), _weight(5, 8, torch.float32, seed=1)
    assert torch.equal(joined(x), torch.cat((first(x), second(x)), dim=1))
    assert joined.nbytes_by_form == {"float32": first.nbytes, "int8": second.nbytes}
    assert (joined.form, joined.nbytes) == ("float32, int8", first.nbytes + second.nbytes)
    assert joined.shares(first.weight)


@needs_onednn
def test_packed_weights_cannot_be_looked_at() -> None:
    parts = _weight(3, 2, torch.float32), torch.zeros(3)
    plain, packed = Linear(PlainMatrix(*parts)), Linear(BlockedMatrix(*parts))
    assert plain.nbytes == packed.nbytes == 4 * (3 * 2 + 3)
    assert (plain.weight, plain.bias) == parts
    with pytest.raises(AssertionError):
        _ = packed.weight


@needs_onednn
def test_a_packed_head_is_counted_beside_the_embedding_that_it_was_tied_to(tmp_path: Path) -> None:
    FAMILIES["qwen3-tied"](tmp_path)
    draw = partial(random_weights, open_checkpoint(tmp_path).config, device="cpu", dtype=torch.float32, seed=0)
    plain = draw().nbytes
    weights = draw(formats=WeightFormats(BlockedMatrix, BlockedMatrix))
    assert weights.nbytes == plain + weights.embedding.nbytes == weights.nbytes_by_form["float32"]


def test_where_there_are_no_blocks_weights_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lossless_format(torch.device("mps"), torch.bfloat16) is PlainMatrix
    assert lossless_format(CPU, torch.float16) is PlainMatrix
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert lossless_format(CPU, torch.float32) is PlainMatrix


@pytest.mark.parametrize("bfloat16", [True, False])
def test_bfloat16_is_blocked_where_the_cpu_computes_in_it(bfloat16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "has_onednn", lambda device: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: bfloat16)
    assert lossless_format(CPU, torch.bfloat16) is (BlockedMatrix if bfloat16 else PlainMatrix)
    assert lossless_format(CPU, torch.float32) is BlockedMatrix
