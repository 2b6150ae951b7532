"""Codes of four bits: products are those of what they stand for."""

from __future__ import annotations

import pytest
import torch

from runtime.checkpoint.stored import CODE_GROUPS, CodeFormat
from runtime.devices.native.kernels import Kernels
from runtime.devices.native.structures import Matrix
from runtime.nn.matrices.arithmetic import quantize_int4
from runtime.nn.matrices.formats import KeptCodes
from runtime.nn.matrices.int4 import (
    EXPAND_ROWS,
    MPS_EXPAND_ROWS,
    CpuInt4,
    WeightInt4,
    packed_bytes,
)
from tests.fakes.devices.mps import MPS, fake_mps
from tests.models.step_driver import CPU
from tests.rows import every_row
from tests.unit.runtime.nn.matrices.products import INPUTS, OUTPUTS, draw, draw_codes, error

# Rows, results, scales and zeros are rounded to bfloat16, each by a share of at most 2 ** -9; sums are not.
ROUNDING = 0.004
SLAB_OF_ROWS = 64  # that a thread multiplies with a block, `source/multiply.h`


@every_row("dtype", [torch.float32, torch.bfloat16, torch.float16])
@every_row("rows", [1, 5, EXPAND_ROWS])
@every_row("group", CODE_GROUPS)
def test_products_are_those_of_the_expanded_codes(group: int, rows: int, dtype: torch.dtype) -> None:
    codes, x, bias = draw_codes(group), draw(rows, INPUTS, seed=1, dtype=dtype), draw(OUTPUTS, seed=2, dtype=dtype)
    product = KeptCodes(CPU, dtype)(codes, bias)
    y = product(x)
    assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
    assert error(y, x.float() @ codes.expand().T + bias.float()) <= ROUNDING
    assert product.form == f"int4 by {group}"
    assert product.nbytes == packed_bytes(OUTPUTS, INPUTS, product.form) + bias.nbytes


@every_row("dtype", [torch.float32, torch.bfloat16])
@every_row("group", CODE_GROUPS)
@every_row("outputs", [OUTPUTS, OUTPUTS + 16])
def test_many_rows_are_multiplied_with_the_weights_of_few(outputs: int, group: int, dtype: torch.dtype) -> None:
    """Up to a last bit of bfloat16: the kernel for few rows expands the same numbers, and adds in another order.

    Outputs may leave its last block half full.
    """
    product = CpuInt4(draw_codes(group, outputs), None)
    x = draw(EXPAND_ROWS, INPUTS, seed=1, dtype=dtype)
    few = torch.cat([product(rows) for rows in torch.split(x, EXPAND_ROWS - 1)])
    # In bfloat16 the expanded weights are rounded, too.
    assert error(product(x), few) <= (0.0005 if dtype == torch.float32 else ROUNDING)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("group", CODE_GROUPS)
@pytest.mark.parametrize("outputs", [OUTPUTS, OUTPUTS + 16])
def test_kernels_expand_weights_to_the_same_bits(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, outputs: int, group: int, dtype: torch.dtype
) -> None:
    """Where they know the layout and the dtype, and do not multiply many rows themselves; the rest is PyTorch's."""
    monkeypatch.setattr(kernels, "for_many_rows", frozenset())
    expanded: list[Matrix] = []
    expand = kernels.expand

    def noted(matrix: Matrix, to: int, *, is_bfloat16: bool, block: int, threads: int) -> None:
        expanded.append(matrix)
        expand(matrix, to, is_bfloat16=is_bfloat16, block=block, threads=threads)

    monkeypatch.setattr(kernels, "expand", noted)
    codes, x = draw_codes(group, outputs), draw(EXPAND_ROWS, INPUTS, seed=1, dtype=dtype)
    plain, native = CpuInt4(codes, None), CpuInt4(codes, None, kernels)
    assert torch.equal(native(x), plain(x))
    knows = plain.packed.block in kernels.targets and dtype != torch.float16
    assert len(expanded) == (1 if knows else 0)
    assert torch.equal(native(x[:-1]), plain(x[:-1]))
    assert len(expanded) == (1 if knows else 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("group", CODE_GROUPS)
@pytest.mark.parametrize("biased", [False, True], ids=["", "with a bias"])
def test_kernels_multiply_each_of_many_rows_as_they_do_a_single_one(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, group: int, dtype: torch.dtype, *, biased: bool
) -> None:
    """To the bit, of any number of rows, and as near to PyTorch's products as these are to those of few rows."""
    monkeypatch.setattr(kernels, "for_many_rows", set(kernels.targets))
    codes, bias = draw_codes(group), draw(OUTPUTS, seed=2, dtype=dtype) if biased else None
    plain, native = CpuInt4(codes, bias), CpuInt4(codes, bias, kernels)
    if plain.packed.block not in kernels.targets:
        pytest.skip("PyTorch's matrices are not in these blocks")
    x = draw(2 * SLAB_OF_ROWS + 9, INPUTS, seed=1, dtype=dtype)
    one_by_one = torch.cat([native(row[None]) for row in x])
    for rows in (1, 2, 3, 8, 9, SLAB_OF_ROWS - 1, SLAB_OF_ROWS, SLAB_OF_ROWS + 1, len(x)):
        y = native(x[:rows])
        assert (y.dtype, torch.equal(y, one_by_one[:rows])) == (dtype, True), rows
        assert error(y, plain(x[:rows])) <= (0.001 if dtype == torch.float32 else ROUNDING)


def test_numbers_that_are_none_spoil_their_own_rows_of_many(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "for_many_rows", set(kernels.targets))
    native = CpuInt4(draw_codes(32), None, kernels)
    if native.packed.block not in kernels.targets:
        pytest.skip("PyTorch's matrices are not in these blocks")
    x = draw(100, INPUTS)
    sound = native(x)
    x[70, 5], x[3, 400] = torch.nan, torch.inf
    y = native(x)
    broken = torch.zeros(100, dtype=torch.bool)
    broken[[3, 70]] = True
    assert torch.equal(y[~broken], sound[~broken])
    assert not y[broken].isfinite().any()


@pytest.mark.parametrize("outputs", [4096 + 64, 2 * 4096, 4096 + 16])
def test_a_large_matrix_is_packed_in_slabs(outputs: int) -> None:
    codes = draw_codes(32, outputs, 32)
    x = torch.eye(32)
    assert error(CpuInt4(codes, None)(x), codes.expand().T) <= ROUNDING


def test_shapes_that_the_kernels_do_not_take_are_known() -> None:
    on_cpu, on_mps = KeptCodes(CPU, torch.float32), KeptCodes(MPS, torch.bfloat16)
    assert on_cpu.takes(16, 96, CodeFormat(4, 32))
    assert not on_cpu.takes(24, 96, CodeFormat(4, 32))
    assert not on_cpu.takes(16, 96, CodeFormat(4, 64))
    assert on_mps.takes(32, 96, CodeFormat(4, 32))
    assert not on_mps.takes(16, 96, CodeFormat(4, 32))
    assert not on_mps.takes(32, 96, CodeFormat(6, 32))


def test_codes_of_a_file_are_kept_to_the_bit() -> None:
    """Where scales and zeros are bfloat16, as MLX has them, one row of ones shows each weight."""
    codes = quantize_int4(draw(OUTPUTS, INPUTS), torch.bfloat16)
    y = CpuInt4(codes, None)(torch.eye(INPUTS)[:EXPAND_ROWS])
    assert torch.equal(y, codes.expand().T[:EXPAND_ROWS].bfloat16().float())


# --- MPS: shapes and operations on a fake device, and what its layout means ------------------------------------------


@pytest.mark.parametrize("inputs", [576, 512, 96])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_few_rows_go_to_mps_kernel_and_many_to_a_product(dtype: torch.dtype, inputs: int) -> None:
    with fake_mps() as traffic:
        product = KeptCodes(MPS, dtype)(draw_codes(32, 64, inputs), None)
        traffic.clear()
        for rows in (1, MPS_EXPAND_ROWS - 1, MPS_EXPAND_ROWS, 100):
            y = product(torch.empty(rows, inputs, dtype=dtype, device=MPS))
            assert (y.shape, y.dtype, y.device) == ((rows, 64), dtype, MPS)
        assert (traffic.read, traffic.sent) == ([], [])


@pytest.mark.parametrize("group", CODE_GROUPS)
def test_weights_are_expanded_from_the_layout_of_mps(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packing swaps the halves of each byte and nothing else, says its source (mps/kernels/Quantized.metal)."""

    def packed(pairs: torch.Tensor, tiles: int) -> torch.Tensor:
        swapped = (pairs & 15) << 4 | pairs >> 4
        return swapped.view(torch.int32).view(OUTPUTS // 8, INPUTS // (16 * tiles), 32, tiles // 2)

    monkeypatch.setattr(torch.ops.aten, "_convert_weight_to_int4pack", packed)
    monkeypatch.setattr(WeightInt4, "EXPANDS", ("cpu",))
    codes, x = draw_codes(group), draw(MPS_EXPAND_ROWS, INPUTS, seed=1)
    product = WeightInt4(codes, None, CPU, torch.float32)
    torch.testing.assert_close(product(x), x @ codes.expand().T, atol=1e-4, rtol=1e-4)


def test_sizes_are_by_form() -> None:
    assert packed_bytes(64, 128, "float32") == 64 * 128 * 4
    assert packed_bytes(64, 128, "bfloat16") == 64 * 128 * 2
    assert packed_bytes(64, 128, "int8") == 64 * (128 + 4)
    assert packed_bytes(64, 128, "int4 by 64") == 64 * (64 + 2 * 4)
    assert packed_bytes(64, 128, "int6 by 16") == 64 * (96 + 8 * 2)
