"""Buffers of states: their sizes, what goes in and comes out, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.open import open_checkpoint
from runtime.kv.cache import KVCache, kv_bytes
from runtime.kv.pages import PageTable
from runtime.kv.states import StateBuffers, state_bytes
from tests.models.checkpoints import FAMILIES
from tests.rows import every_row

CPU = torch.device("cpu")
FIRST, SECOND = PageTable((0,)), PageTable((1,))
ODD, FLOATS = torch.bfloat16, torch.float32


@pytest.fixture
def config(tmp_path: Path) -> ModelConfig:
    FAMILIES["lfm2-bias"](tmp_path)
    return open_checkpoint(tmp_path).config


@pytest.fixture
def buffers(config: ModelConfig) -> StateBuffers:
    return StateBuffers(config, count=3, device=CPU, dtype=ODD)


def test_a_buffer_has_what_each_recurrent_layer_keeps(config: ModelConfig, buffers: StateBuffers) -> None:
    rows = 2 * 3 * config.hidden_size  # two layers, each with the three rows before the next one
    assert state_bytes(config, FLOATS) == 4 * rows
    assert buffers.bytes_per_buffer == state_bytes(config, ODD) == 2 * rows
    assert (buffers.count, buffers.nbytes) == (3, 4 * buffers.bytes_per_buffer)  # one has a sequence's beginning
    assert state_bytes(replace(config, recurrent=(None,) * config.num_layers), ODD) == 0


def test_a_saved_buffer_is_what_another_one_becomes(buffers: StateBuffers) -> None:
    first, last = torch.randn(3, 64).to(ODD), torch.randn(3, 64).to(ODD)
    buffers.part(0, 0)[1], buffers.part(2, 0)[1] = first, last
    saved = buffers.save(1)
    assert (saved.dtype, saved.numel()) == (torch.uint8, buffers.bytes_per_buffer)
    buffers.load(2, saved)
    assert torch.equal(buffers.part(0, 0)[2], first)
    assert torch.equal(buffers.part(2, 0)[2], last)
    assert (buffers.number(2), buffers.part(0, 0)[buffers.number(None)].any().item()) == (2, False)


def test_recurrent_layers_take_no_kv(config: ModelConfig) -> None:
    kv = KVCache(config, slots=2, context=16, device=CPU, dtype=FLOATS)
    plain = KVCache(replace(config, recurrent=(None,) * 3), slots=2, context=16, device=CPU, dtype=FLOATS)
    assert kv.nbytes == kv_bytes(config, FLOATS, slots=2, context=16) == plain.nbytes // 3
    assert (kv.full_pieces, kv.row_shape[0], kv.bytes_per_token) == (1, 1, plain.bytes_per_token // 3)
    given = torch.randn(2, 2, 5, 16)
    kv.write(1, 0, 0, given, FIRST)
    saved = kv.save(0, 0, 5, FIRST)
    assert torch.equal(saved, given[None])
    kv.load(1, 0, saved, SECOND)
    kv.layer(1)[0][:, :, :64] = 0
    kv.copy(1, 0, 0, 3, SECOND, FIRST)
    kv.copy_page(0, 1, 3)
    assert torch.equal(kv.save(0, 0, 5, SECOND), saved)
    kv.copy_page(1, 0, 5)
    assert torch.equal(kv.save(0, 0, 5, FIRST), saved)


@every_row(
    "start, state, written",
    [(0, 1, [2]), (5, None, [2]), (5, 1, [2, 1])],
)
def test_rows_that_go_on_from_nothing_or_spoil_what_they_go_on_from_are_refused(
    start: int, state: int | None, written: list[int], buffers: StateBuffers
) -> None:
    buffers.check_rows(5, 1, [2, 0])
    buffers.check_rows(0, None, [])
    with pytest.raises(RuntimeError, match=f"rows from {start}"):
        buffers.check_rows(start, state, written)
