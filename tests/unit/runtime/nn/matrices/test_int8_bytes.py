"""Eight bits of weights and rows by the kernels: against the same by PyTorch's integers, and against FBGEMM."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.nn.matrices.arithmetic import TINY, hadamard_matrix, hadamard_rotate, quantize_int8
from runtime.nn.matrices.int8 import ByteInt8, DynamicInt8, has_integer_products
from runtime.nn.matrices.linear import Linear, WeightFormats
from runtime.nn.matrices.native import NativeLinear
from tests.unit.runtime.nn.layers.native_models import QWEN2, QWEN3, both, difference, run, segments_of
from tests.unit.runtime.nn.matrices.products import draw, error

if TYPE_CHECKING:
    from runtime.native.kernels import Kernels

CPU = torch.device("cpu")
OUTPUTS, INPUTS = 208, 576  # whole pieces, and no larger ones
ROWS = (1, 2, 3, 4, 5, 7, 32, 33, 64, 67, 200)  # of all remainders of what is computed at a time, and of two slabs
DTYPES = [torch.float32, torch.bfloat16]
# Here and there a number that is halfway between two bytes is rounded to the other one.
TOLERANCE = 1e-3


def by_integers(weight: torch.Tensor, bias: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor:
    """The product as `ByteInt8` promises it, in float64."""
    rotation = hadamard_matrix(weight.shape[1])
    quantised, scales = quantize_int8(weight, rotation)
    even = hadamard_rotate(x, rotation)
    largest = even.abs().amax(-1, keepdim=True).clamp_(min=TINY)
    whole = (even / largest * 127).round().double()
    y = whole @ quantised.double().T * scales.double() * largest.double() / 127
    return y if bias is None else y + bias.double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_those_of_whole_numbers(kernels: Kernels, dtype: torch.dtype, *, biased: bool) -> None:
    weight, bias = draw(OUTPUTS, INPUTS, dtype=dtype), draw(OUTPUTS, seed=2, dtype=dtype) if biased else None
    product = ByteInt8(weight, bias, kernels)
    for rows in ROWS:
        x = draw(rows, INPUTS, seed=rows, dtype=dtype)
        x[:, 7] += 40  # as some columns of trained models are
        y = product(x)
        assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
        assert error(y, by_integers(weight, bias, x)) < (TOLERANCE if dtype == torch.float32 else 4e-3), rows


@pytest.mark.skipif(not has_integer_products(CPU), reason="no FBGEMM, or a processor without VNNI")
def test_they_are_fbgemms(kernels: Kernels) -> None:
    weight, bias = draw(OUTPUTS, INPUTS), draw(OUTPUTS, seed=2)
    x = draw(5, INPUTS, seed=1)
    assert error(ByteInt8(weight, bias, kernels)(x), DynamicInt8(weight, bias)(x)) < TOLERANCE


def test_a_row_does_not_depend_on_its_neighbours(kernels: Kernels) -> None:
    product = ByteInt8(draw(OUTPUTS, INPUTS), None, kernels)
    x = draw(max(ROWS), INPUTS)
    x *= torch.logspace(-3, 3, max(ROWS))[:, None]
    together = product(x)
    for rows in ROWS:
        assert torch.equal(product(x[:rows]), together[:rows])
    assert torch.equal(product(x[150:151]), together[150:151])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_none_spoils_its_own_row_alone(kernels: Kernels, broken: float) -> None:
    product = ByteInt8(draw(OUTPUTS, INPUTS), None, kernels)
    x = draw(3, INPUTS)
    sound = product(x)
    x[1, 77] = broken
    own = product(x)
    assert not own[1].isfinite().any()
    assert torch.equal(own[[0, 2]], sound[[0, 2]])


def test_rows_of_zeros_and_of_next_to_nothing_are_that(kernels: Kernels) -> None:
    product = ByteInt8(draw(OUTPUTS, INPUTS), None, kernels)
    assert torch.equal(product(torch.zeros(1, INPUTS)), torch.zeros(1, OUTPUTS))
    assert product(torch.full((1, INPUTS), 1e-37)).abs().max() < 1e-32
    assert error(product(draw(1, INPUTS) * 1e30) / 1e30, product(draw(1, INPUTS))) < TOLERANCE
    assert product(torch.empty(0, INPUTS)).shape == (0, OUTPUTS)


def test_the_largest_sums_do_not_overflow(kernels: Kernels) -> None:
    """All weights, and all rows once they are spread, are as large as a byte can be."""
    inputs = ByteInt8.MOST_INPUTS
    weight = hadamard_rotate(torch.ones(16, inputs), hadamard_matrix(inputs))
    for sign in (1, -1):
        y = ByteInt8(weight, None, kernels)(sign * weight[:1])
        assert error(y, torch.full((1, 16), float(sign * inputs))) < 1e-6


@pytest.mark.parametrize("shape", [(24, 64), (32, 96), (16, ByteInt8.MOST_INPUTS + 64)])
def test_matrices_of_other_sizes_are_not_taken(shape: tuple[int, int]) -> None:
    assert not ByteInt8.takes(*shape)


@pytest.mark.parametrize("settings", [QWEN2, QWEN3], ids=["qwen2", "qwen3"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_of_few_rows_are_what_pytorch_makes_of_them(
    kernels: Kernels, settings: dict[str, object], dtype: torch.dtype
) -> None:
    formats = WeightFormats(partial(ByteInt8, kernels=kernels), partial(ByteInt8, kernels=kernels))
    plain, native = both(settings, dtype, kernels, formats)
    assert native.native_layers == native.num_layers
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in ({0: 50}, {1: 20}, {0: 1}, {0: 3, 1: 4}, {0: 20, 1: 12}):
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(native, segments)
            assert difference(own.hidden, reference.hidden) < (0.01 if dtype == torch.float32 else 0.05), step


def test_a_head_of_many_rows(kernels: Kernels) -> None:
    linear = Linear(ByteInt8(draw(OUTPUTS, INPUTS), None, kernels))
    x = draw(40, INPUTS)
    for deterministic in (False, True):
        assert torch.equal(NativeLinear(linear, torch.float32, kernels, deterministic=deterministic)(x), linear(x))
