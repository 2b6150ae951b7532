"""Findings of the self-test's comparison with the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from runtime.kv.pages import PageTable
from runtime.kv.states import StateBuffers
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.nn.matrices.embedding import PlainEmbedding
from runtime.nn.model import Transformer
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.sampler import Drawn, sample
from runtime.selftest.findings import Mismatch
from runtime.selftest.parity import Comparison, Parity
from tests.models.checkpoints import FAMILIES
from web.selftest import PARITY


def test_scores_that_are_off_are_named_by_position() -> None:
    expected = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    compare = Comparison(0.01)
    assert compare(expected + 3, expected)["near_ties"] == 0  # the same distribution
    for wrong in (expected[2].flip(0), torch.full((50,), torch.nan)):
        scores = expected.clone()
        scores[2] = wrong
        with pytest.raises(Mismatch, match=r"^after position 12 the scores are off by"):
            compare(scores, expected, first=10)


def test_another_token_is_forgiven_only_where_both_score_alike() -> None:
    expected = torch.zeros(1, 10000)
    expected[0, :2] = torch.tensor([50.0, 49.999])
    expected[0, 2:] = torch.linspace(-30, 30, 9998)
    swapped = expected.clone()
    swapped[0, :2] = swapped[0, :2].flip(0)
    assert Comparison(0.01)(swapped, expected)["near_ties"] == 1
    expected[0, 1] = swapped[0, 0] = 45.0
    with pytest.raises(Mismatch, match="token 1 is chosen in place of 0"):
        Comparison(0.01)(swapped, expected)


def test_a_weight_that_is_wrong_is_noticed(model: Transformer, parity: Parity) -> None:
    parity.chunks()
    assert isinstance(model.weights.embedding, PlainEmbedding)
    model.weights.embedding.weight[:, :8] += 1
    with pytest.raises(Mismatch, match="the scores are off by"):
        parity.chunks()


def test_rows_that_are_not_written_are_noticed(
    model: Transformer, parity: Parity, monkeypatch: pytest.MonkeyPatch
) -> None:
    parity.trim_and_resume()
    write = model.kv.write

    def lose(layer: int, slot: int, start: int, rows: torch.Tensor, pages: PageTable) -> None:
        write(layer, slot, start, rows[:, :, :-1], pages)

    monkeypatch.setattr(model.kv, "write", lose)
    for check in (parity.trim_and_resume, parity.mixed_batch):
        with pytest.raises(Mismatch):
            check()


def test_kv_that_is_not_moved_is_noticed(model: Transformer, parity: Parity, monkeypatch: pytest.MonkeyPatch) -> None:
    parity.moved_kv()

    def fill(
        _source: int, slot: int, start: int, end: int, _source_pages: PageTable, pages: PageTable, _least: int | None
    ) -> None:
        for rows in model.kv.read(3, slot, start, end, pages):
            rows.fill_(1)

    monkeypatch.setattr(model.kv, "copy", fill)
    with pytest.raises(Mismatch, match="KV that was moved to slot 2"):
        parity.moved_kv()


def test_a_wrong_verdict_is_noticed(parity: Parity, monkeypatch: pytest.MonkeyPatch) -> None:
    parity.verify()

    def least(
        logits: torch.Tensor,
        adjusted: torch.Tensor,
        distributions: torch.Tensor,
        batch: SamplingBatch,
        also_read: torch.Tensor | None,
    ) -> Drawn:
        return sample(logits, -adjusted, distributions, batch, also_read)

    monkeypatch.setattr("runtime.sampling.acceptance.sample", least)
    with pytest.raises(Mismatch, match="the scores say"):
        parity.verify()


def test_states_are_compared_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAMILIES["qwen3.5"](tmp_path)
    options = LoadOptions(tmp_path, slots=4, device="cpu", dtype="float32", threads=1)
    _, checkpoint = describe_model(options, "hybrid")
    parity = Parity(load_model(options, checkpoint), load_model(options, checkpoint), range(3, 50), 8)
    for check in PARITY.values():
        check(parity)

    monkeypatch.setattr(StateBuffers, "number", lambda buffers, state: buffers.count)
    for check in PARITY.values():
        with pytest.raises(Mismatch):
            check(parity)
