"""Attention of single rows, by Triton's interpreter, against PyTorch's operations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.cuda import capture, rows
from runtime.cuda.rows import NO_PLACE, RowTable, Scoring, table_numbers
from runtime.nn.layers.tiles import sink_tile
from runtime.step.step import Segment
from tests.fakes.devices.cuda import InterpretedCapture

if TYPE_CHECKING:
    from torch import Tensor

HEADS, KV_HEADS, DIM, PLACES = 6, 2, 24, 300


def table_of(segments: list[Segment], size: int) -> RowTable:
    return RowTable(torch.tensor(table_numbers(segments, size)).view(4, size))


def attended(arena: Tensor, query: Tensor, table: RowTable, scoring: Scoring) -> Tensor:
    kernels = InterpretedCapture().kernels
    return kernels.attend(query, KV_HEADS, arena, None, table, scoring).view(-1, HEADS, DIM)


@pytest.fixture
def arena() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(2, KV_HEADS, PLACES, DIM)


def test_the_numbers_of_a_table() -> None:
    segments = [Segment(2, 5, [1, 1], origin=100), Segment(0, 9, [1], first=4)]
    assert table_numbers(segments, 4) == [105, 106, 9, NO_PLACE, 5, 6, 9, 0, 0, 0, 4, 0, 2, 2, 0, 0]


@pytest.mark.parametrize("length", [1, 64, 65, 150])
@pytest.mark.parametrize("splits", [1, 4])
def test_a_head_with_a_sink(arena: Tensor, monkeypatch: pytest.MonkeyPatch, length: int, splits: int) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", splits * KV_HEADS)
    query, sinks = torch.randn(1, HEADS, DIM), torch.randn(HEADS)
    table = table_of([Segment(0, length - 1, [1], origin=40)], 1)
    own = attended(arena, query, table, Scoring(0.3, None, None, sinks))
    keys, values = arena[:, None, :, 40 : 40 + length]
    expected = sink_tile(query.view(1, KV_HEADS, -1, DIM), keys, values, None, sinks=sinks, scale=0.3)
    torch.testing.assert_close(own, expected.view(1, HEADS, DIM), rtol=1e-5, atol=1e-5)


def test_a_row_sees_nothing_before_the_first_position_that_has_kv(arena: Tensor) -> None:
    query = torch.randn(1, HEADS, DIM)
    arena[:, :, 10:14] = torch.nan
    table = table_of([Segment(0, 8, [1], first=4, origin=10)], 1)
    own = attended(arena, query, table, Scoring(0.2, None, None, None))
    late = table_of([Segment(0, 4, [1], origin=14)], 1)
    torch.testing.assert_close(own, attended(arena, query, late, Scoring(0.2, None, None, None)))


def test_rows_that_are_none_write_nothing_and_see_nothing(arena: Tensor) -> None:
    table = table_of([Segment(0, 8, [1], origin=10)], 2)
    before, given = arena.clone(), torch.randn(2, 2, KV_HEADS, DIM)
    InterpretedCapture().kernels.write(given, arena, None, table)
    changed = (arena != before).any(-1).any(0).any(0).nonzero().flatten()
    assert changed.tolist() == [18]
    assert torch.equal(arena[:, :, 18], given[0])
    own = attended(arena, torch.full((2, HEADS, DIM), torch.nan), table, Scoring(0.2, None, None, None))
    assert not own[1].any()


def test_nothing_is_recorded_for_a_cpu() -> None:
    assert capture.open_capture(torch.device("cpu")) is None


def test_without_triton_the_log_says_that_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    monkeypatch.setitem(sys.modules, "runtime.cuda.kernels", None)
    assert capture.open_capture(torch.device("cuda")) is None
    assert "no CUDA graphs of layers" in caplog.text
