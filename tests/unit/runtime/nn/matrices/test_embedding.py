"""Embeddings in few bits: the rows that are looked up are those that were stored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from runtime.checkpoint.stored import CODE_GROUPS
from runtime.nn.matrices.embedding import Embedding, Int4Embedding, Int8Embedding, PlainEmbedding, embedding_bytes
from tests.fakes.devices.mps import MPS, fake_mps
from tests.models.step_driver import CPU
from tests.unit.runtime.nn.matrices.products import draw, draw_codes, error

VOCAB, HIDDEN = 96, 256
TOKENS = torch.tensor([5, 0, 95, 5, 17])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("hidden", [HIDDEN, 40])
@pytest.mark.parametrize("step", [96, 7])
def test_rows_of_eight_bits_are_near_the_full_ones(step: int, hidden: int, dtype: torch.dtype) -> None:
    weight = draw(VOCAB, hidden)
    embedding = Int8Embedding([weight[at : at + step] for at in range(0, VOCAB, step)], (VOCAB, hidden), CPU, dtype)
    rows = embedding(TOKENS)
    assert (rows.shape, rows.dtype) == ((5, hidden), dtype)
    assert error(rows, weight[TOKENS]) <= 0.008
    assert (embedding.dtype, embedding.device, embedding.form) == (dtype, CPU, "int8")
    assert embedding.nbytes == embedding_bytes(VOCAB, hidden, dtype, "int8") <= 1.13 * weight.numel()


def test_q8_0_is_kept_as_it_is() -> None:
    """Its blocks have the same size, and its largest code in each is 127."""
    blocks = quantize(draw(VOCAB, HIDDEN).numpy(), GGMLQuantizationType.Q8_0)
    weight = torch.from_numpy(np.array(dequantize(blocks, GGMLQuantizationType.Q8_0)))
    embedding = Int8Embedding([weight], (VOCAB, HIDDEN), CPU, torch.float32)
    torch.testing.assert_close(embedding(TOKENS), weight[TOKENS], rtol=2e-7, atol=0)


@pytest.mark.parametrize("group", CODE_GROUPS)
def test_rows_of_four_bits_are_what_their_codes_stand_for(group: int) -> None:
    codes = draw_codes(group, VOCAB, HIDDEN)
    embedding = Int4Embedding(codes, CPU, torch.float32)
    torch.testing.assert_close(embedding(TOKENS), codes.expand()[TOKENS])
    assert embedding.nbytes == embedding_bytes(VOCAB, HIDDEN, torch.float32, f"int4 by {group}")
    narrow = Int4Embedding(codes, CPU, torch.bfloat16)
    assert narrow(TOKENS).dtype == torch.bfloat16
    assert error(narrow(TOKENS), codes.expand()[TOKENS]) <= 0.006


@pytest.mark.parametrize("kind", ["plain", "int8", "int4"])
def test_rows_are_looked_up_on_mps_without_asking_the_host(kind: str) -> None:
    with fake_mps() as traffic:
        weight = torch.empty(VOCAB, HIDDEN, dtype=torch.bfloat16, device=MPS)
        embedding: Embedding = PlainEmbedding(weight)
        if kind == "int8":
            embedding = Int8Embedding([weight], (VOCAB, HIDDEN), MPS, weight.dtype)
        elif kind == "int4":
            embedding = Int4Embedding(draw_codes(32, VOCAB, HIDDEN), MPS, weight.dtype)
        token_ids = torch.empty(5, dtype=torch.int64, device=MPS)
        traffic.clear()
        rows = embedding(token_ids)
        assert (rows.shape, rows.dtype, rows.device) == ((5, HIDDEN), torch.bfloat16, MPS)
        assert (traffic.read, traffic.sent) == ([], [])
