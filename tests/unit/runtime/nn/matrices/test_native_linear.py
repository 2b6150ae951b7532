"""A product alone, by the kernels: against PyTorch's and the exact one, of every format and number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from runtime.devices.native.structures import MOST_ROWS
from runtime.nn.matrices.int4 import CpuInt4
from runtime.nn.matrices.int8 import DynamicInt8, WeightInt8
from runtime.nn.matrices.linear import BlockedMatrix, Linear, PlainMatrix, has_onednn
from runtime.nn.matrices.native import NativeLinear, NotInKernels, native_head
from tests.unit.runtime.nn.matrices.products import draw, draw_codes, error

if TYPE_CHECKING:
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.matrices.linear import MatrixFormat

CPU = torch.device("cpu")
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16
FORMATS: dict[str, MatrixFormat] = {
    "int4": CpuInt4.quantised,
    "int8": WeightInt8,
    "rows": PlainMatrix,
    "panels": BlockedMatrix,
}
KINDS = [(name, dtype) for name in FORMATS for dtype in (FLOAT32, BFLOAT16) if (name, dtype) != ("panels", BFLOAT16)]
kinds = pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=[f"{name} {str(dtype)[6:]}" for name, dtype in KINDS])
# Of int4 and int8 the results are rounded to bfloat16, and so they are in a model of that; here and there otherwise.
TOLERANCE = {"int4": 2e-3, "int8": 2e-3, "rows": 1e-6, "panels": 1e-6}


def made(kind: str, dtype: torch.dtype, outputs: int = 192, inputs: int = 512, *, bias: bool = False) -> Linear:
    if kind == "panels" and not has_onednn(CPU):
        pytest.skip("this PyTorch has no oneDNN for x86")
    weight = draw(outputs, inputs, dtype=dtype)
    return Linear(FORMATS[kind](weight, draw(outputs, seed=2, dtype=dtype) if bias else None))


@kinds
@pytest.mark.parametrize("bias", [False, True], ids=["", "with a bias"])
def test_few_rows_are_what_pytorch_makes_of_them(
    kernels: Kernels, kind: str, dtype: torch.dtype, *, bias: bool
) -> None:
    linear = made(kind, dtype, bias=bias)
    native = NativeLinear(linear, dtype, kernels)
    for rows in range(1, MOST_ROWS + 1):
        x = draw(rows, 512, seed=rows, dtype=dtype)
        own = native(x)
        assert own.dtype == FLOAT32
        assert error(own, linear(x)) < (TOLERANCE[kind] if dtype == FLOAT32 else 4e-3), rows


@kinds
def test_a_row_does_not_depend_on_its_neighbours(kernels: Kernels, kind: str, dtype: torch.dtype) -> None:
    native = NativeLinear(made(kind, dtype), dtype, kernels)
    x = draw(MOST_ROWS, 512, dtype=dtype)
    together = native(x)
    for rows in range(1, MOST_ROWS + 1):
        assert torch.equal(native(x[:rows]), together[:rows])
    assert torch.equal(native(x[5:6]), together[5:6])


@kinds
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_none_spoils_its_own_row_alone(
    kernels: Kernels, kind: str, dtype: torch.dtype, broken: float
) -> None:
    native = NativeLinear(made(kind, dtype), dtype, kernels)
    x = draw(3, 512, dtype=dtype)
    sound = native(x)
    x[1, 77] = broken
    own = native(x)
    assert not own[1].isfinite().any()
    assert torch.equal(own[[0, 2]], sound[[0, 2]])


@kinds
def test_every_piece_of_a_matrix_with_many_is_computed(kernels: Kernels, kind: str, dtype: torch.dtype) -> None:
    """Threads take several at a time of a matrix with more pieces than are handed out, and the last time fewer."""
    linear = made(kind, dtype, outputs=64 * 521, inputs=32)
    x = draw(2, 32, seed=3, dtype=dtype)
    assert error(NativeLinear(linear, dtype, kernels)(x), linear(x)) < (TOLERANCE[kind] if dtype == FLOAT32 else 4e-3)


@kinds
def test_many_rows_and_none_are_pytorchs(kernels: Kernels, kind: str, dtype: torch.dtype) -> None:
    linear = made(kind, dtype)
    native = NativeLinear(linear, dtype, kernels)
    x = draw(MOST_ROWS + 1, 512, dtype=dtype)
    assert torch.equal(native(x), linear(x))
    assert native(x[:0]).shape == (0, 192)


def test_rows_need_not_lie_in_order(kernels: Kernels) -> None:
    native = NativeLinear(made("rows", FLOAT32), FLOAT32, kernels)
    x = draw(512, 2)
    assert torch.equal(native(x.T), native(x.T.contiguous()))


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("outlier", [1.0, 100.0], ids=["even", "with an outlier"])
def test_four_bits_lose_nothing_to_speak_of_that_bfloat16_did_not(kernels: Kernels, group: int, outlier: float) -> None:
    """Against the exact product of rows in bfloat16, rounded to that, they are as near as PyTorch's are."""
    matrix = CpuInt4(draw_codes(group), None)
    x = draw(4, 512)
    x[:, 77] *= outlier
    exact = x.bfloat16().double() @ matrix(torch.eye(512)).T.double().T
    own, theirs = (error(y, exact) for y in (NativeLinear(Linear(matrix), FLOAT32, kernels)(x), matrix(x)))
    assert own < 1.02 * theirs


@pytest.mark.parametrize("outlier", [1.0, 100.0], ids=["even", "with an outlier"])
@pytest.mark.parametrize("inputs", [512, 544], ids=["by 64", "by 32"])
def test_eight_bits_lose_nothing_to_speak_of_that_bfloat16_did_not(
    kernels: Kernels, outlier: float, inputs: int
) -> None:
    """Inputs are whole numbers in groups of 64, or of 32 where there are no whole groups of 64."""
    matrix = WeightInt8(draw(192, inputs, seed=2), None)
    x = draw(4, inputs)
    x[:, 77] *= outlier
    weight, scales = matrix.quantised
    exact = x.bfloat16().double() @ (weight.double() * scales.double()[:, None]).T
    own, theirs = (error(y, exact) for y in (NativeLinear(Linear(matrix), FLOAT32, kernels)(x), matrix(x)))
    assert own < 1.02 * theirs


@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_rows_of_zeros_and_of_next_to_nothing_are_that(kernels: Kernels, kind: str) -> None:
    native = NativeLinear(made(kind, FLOAT32), FLOAT32, kernels)
    assert torch.equal(native(torch.zeros(1, 512)), torch.zeros(1, 192))
    assert native(torch.full((1, 512), 1e-37)).abs().max() < 1e-32
    large = native(draw(1, 512) * 1e30)
    assert error(large / 1e30, native(draw(1, 512))) < 1e-2


def test_a_head_that_the_kernels_cannot_compute_is_left_alone(
    kernels: Kernels, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    for head, dtype, why in (
        (Linear(PlainMatrix(torch.zeros(20, 32), None)), FLOAT32, "another size"),
        (Linear(PlainMatrix(torch.zeros(16, 32), None)), torch.float16, "another dtype"),
        (Linear(WeightInt8(torch.zeros(16, 48), None)), FLOAT32, "another size"),
    ):
        assert native_head(head, dtype, kernels) is head
        assert f"the kernels do not compute the head: {why}" in caplog.text.replace("a matrix of ", "")
    with pytest.raises(NotInKernels):
        NativeLinear(Linear(DynamicInt8.__new__(DynamicInt8)), FLOAT32, kernels)
