"""Attention of single rows, by each device's kernels without the device, against PyTorch's operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from runtime.devices.mps.rows import MetalRows
from runtime.devices.single_rows import rows
from runtime.devices.single_rows.rows import NO_PLACE, RowKernels, RowTable, Scoring, splits_for, table_numbers
from runtime.kv.pages import PageTable
from runtime.nn.layers.tiles import sink_tile
from runtime.step.step import Segment
from tests.fakes.devices.metal.compiled import Shim

HEADS, KV_HEADS, DIM, PLACES = 6, 2, 24, 320


def table_of(segments: list[Segment], size: int) -> RowTable:
    return RowTable(torch.tensor(table_numbers(segments, size)).view(-1, size))


@pytest.fixture
def pool() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(2, KV_HEADS, PLACES, DIM)


@pytest.fixture(params=["triton", "metal"])
def kernels(request: pytest.FixtureRequest, shim: Shim) -> RowKernels:
    """Triton's by its interpreter; Metal's compiled as C++."""
    if request.param == "metal":
        return MetalRows(shim, torch.float32, DIM)
    from tests.fakes.devices.cuda import InterpretedCapture  # it skips what imports it where there is no Triton

    return InterpretedCapture().kernels


def attended(kernels: RowKernels, pool: Tensor, query: Tensor, table: RowTable, scoring: Scoring) -> Tensor:
    return kernels.attend(query, KV_HEADS, pool, None, table, scoring).view(-1, HEADS, DIM)


def test_the_numbers_of_a_table() -> None:
    segments = [Segment(2, 63, [1, 1], pages=PageTable((2, 4, 5))), Segment(0, 9, [1], first=4, pages=PageTable((1,)))]
    placed = [2 * 64 + 63, 4 * 64, 64 + 9, NO_PLACE, 63, 64, 9, 0, 0, 0, 4, 0, 2, 2, 0, 0]
    assert table_numbers(segments, 4) == [*placed, 2, 2, 1, 0, 4, 4, 0, 0]


def test_fewer_rows_are_cut_into_more_splits() -> None:
    assert [splits_for(programs) for programs in (1, 8, 16, 100, 256, 1000)] == [32, 32, 16, 2, 1, 1]


@pytest.mark.parametrize("length", [1, 64, 65, 150])
@pytest.mark.parametrize("splits", [1, 4])
def test_a_head_with_a_sink(
    kernels: RowKernels, pool: Tensor, monkeypatch: pytest.MonkeyPatch, length: int, splits: int
) -> None:
    programs = HEADS if isinstance(kernels, MetalRows) else KV_HEADS
    monkeypatch.setattr(rows, "PROGRAMS", splits * programs)
    query, sinks = torch.randn(1, HEADS, DIM), torch.randn(HEADS)
    table = table_of([Segment(0, length - 1, [1], pages=PageTable((3, 0, 2)))], 1)
    own = attended(kernels, pool, query, table, Scoring(0.3, None, None, sinks))
    places = [*range(192, 256), *range(64), *range(128, 192)][:length]
    keys, values = pool[:, None, :, places]
    expected = sink_tile(query.view(1, KV_HEADS, -1, DIM), keys, values, None, sinks=sinks, scale=0.3)
    torch.testing.assert_close(own, expected.view(1, HEADS, DIM), rtol=1e-5, atol=1e-5)


def test_a_row_sees_nothing_before_the_first_position_that_has_kv(kernels: RowKernels, pool: Tensor) -> None:
    query, scoring = torch.randn(1, HEADS, DIM), Scoring(0.2, None, None, None)
    pool[:, :, 64:68] = torch.nan
    pool[:, :, :5] = pool[:, :, 68:73]
    table = table_of([Segment(0, 8, [1], first=4, pages=PageTable((1,)))], 1)
    late = table_of([Segment(0, 4, [1], pages=PageTable((0,)))], 1)
    own, expected = (attended(kernels, pool, query, one, scoring) for one in (table, late))
    torch.testing.assert_close(own, expected)


def test_rows_that_are_none_write_nothing_and_see_nothing(kernels: RowKernels, pool: Tensor) -> None:
    table = table_of([Segment(0, 8, [1], pages=PageTable((1,)))], 2)
    before, given = pool.clone(), torch.randn(2, 2, KV_HEADS, DIM)
    kernels.write(given, pool, None, table)
    changed = (pool != before).any(-1).any(0).any(0).nonzero().flatten()
    assert changed.tolist() == [72]
    assert torch.equal(pool[:, :, 72], given[0])
    query = torch.full((2, HEADS, DIM), torch.nan)
    assert not attended(kernels, pool, query, table, Scoring(0.2, None, None, None))[1].any()


def test_what_is_no_number_in_a_row_s_keys_is_none_in_its_result(kernels: RowKernels, pool: Tensor) -> None:
    """So that it is noticed; and it spoils no other row."""
    pool[0, 1, 66, 5] = torch.nan
    table = table_of([Segment(i, 8, [1], pages=PageTable((page,))) for i, page in enumerate((1, 3))], 2)
    own = attended(kernels, pool, torch.randn(2, HEADS, DIM), table, Scoring(0.2, None, None, None))
    assert own.isnan().any(-1).tolist() == [[False] * 3 + [True] * 3, [False] * 6]
