"""Four bits of weights and eight of rows by the kernels: against the same by PyTorch's numbers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.nn.matrices.arithmetic import quantize_int4
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.int4 import ByteInt4, CpuInt4
from runtime.nn.matrices.int8 import has_integer_products
from runtime.nn.matrices.linear import Linear, WeightFormats
from runtime.nn.matrices.native import NativeLinear
from runtime.nn.matrices.quantization import Quantization
from tests.unit.runtime.nn.layers.native_models import QWEN2, QWEN3, both, difference, run, segments_of
from tests.unit.runtime.nn.matrices.products import draw, draw_codes, error

if TYPE_CHECKING:
    from runtime.checkpoint.stored import GroupCodes
    from runtime.native.kernels import Kernels

CPU = torch.device("cpu")
OUTPUTS, INPUTS = 192, 512  # of what `draw_codes` draws
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 32, 33, 64, 67, 200)  # of all remainders, and of two slabs
DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = 1e-3  # here and there a number that is halfway between two bytes is rounded to the other one


def full(codes: GroupCodes) -> torch.Tensor:
    """The weights as the kernels have them, float64 `[out, in]`."""
    scales, zeros = (part.bfloat16().double().repeat_interleave(codes.group, 1) for part in (codes.scales, codes.zeros))
    return (codes.codes.double() - 8) * scales + zeros


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Rows in bytes, by blocks of 32, as numbers again: float64."""
    blocks = x.float().view(x.shape[0], -1, 32)
    largest = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    return ((blocks / largest * 127).round().double() * largest.double() / 127).view(x.shape)


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_those_of_whole_numbers(kernels: Kernels, group: int, dtype: torch.dtype, *, biased: bool) -> None:
    codes, bias = draw_codes(group), draw(OUTPUTS, seed=2, dtype=dtype) if biased else None
    product = ByteInt4(codes, bias, kernels)
    for rows in ROWS:
        x = draw(rows, INPUTS, seed=rows, dtype=dtype)
        exact = rounded(x) @ full(codes).T
        y = product(x)
        assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
        expected = exact if bias is None else exact + bias.double()
        assert error(y, expected) < (TOLERANCE if dtype == torch.float32 else 4e-3), rows


def test_what_eight_bits_of_a_row_lose_is_little_beside_the_weights(kernels: Kernels) -> None:
    weight, x = draw(OUTPUTS, INPUTS), draw(5, INPUTS, seed=1)
    x[:, 7] += 40  # as some columns of trained models are
    codes, exact = quantize_int4(weight, torch.bfloat16), x @ weight.T
    assert error(ByteInt4(codes, None, kernels)(x), exact) < 1.02 * error(CpuInt4(codes, None)(x), exact)


def test_a_row_does_not_depend_on_its_neighbours(kernels: Kernels) -> None:
    product = ByteInt4(draw_codes(32), None, kernels)
    x = draw(max(ROWS), INPUTS)
    x *= torch.logspace(-3, 3, max(ROWS))[:, None]
    together = product(x)
    for rows in ROWS:
        assert torch.equal(product(x[:rows]), together[:rows])
    assert torch.equal(product(x[150:151]), together[150:151])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_none_spoils_its_own_row_alone(kernels: Kernels, broken: float) -> None:
    product = ByteInt4(draw_codes(32), None, kernels)
    x = draw(3, INPUTS)
    sound = product(x)
    x[1, 77] = broken
    own = product(x)
    assert not own[1].isfinite().any()
    assert torch.equal(own[[0, 2]], sound[[0, 2]])


def test_rows_of_zeros_and_of_next_to_nothing_are_that(kernels: Kernels) -> None:
    product = ByteInt4(draw_codes(64), None, kernels)
    assert torch.equal(product(torch.zeros(1, INPUTS)), torch.zeros(1, OUTPUTS))
    assert product(torch.full((1, INPUTS), 1e-37)).abs().max() < 1e-32
    assert error(product(draw(1, INPUTS) * 1e30) / 1e30, product(draw(1, INPUTS))) < TOLERANCE
    assert product(torch.empty(0, INPUTS)).shape == (0, OUTPUTS)


@pytest.mark.parametrize("shape", [(24, 64, 32), (32, 64, 16), (32, 96, 64)])
def test_matrices_of_other_sizes_are_not_taken(shape: tuple[int, int, int]) -> None:
    assert not ByteInt4.takes(*shape)


@pytest.mark.skipif(not has_integer_products(CPU), reason="a processor without VNNI")
def test_they_are_chosen_where_they_take_the_shape(kernels: Kernels) -> None:
    for quantization in (Quantization.AUTO, Quantization.INT4):
        for given, group, form in ((kernels, 32, ByteInt4), (kernels, 16, CpuInt4), (None, 32, CpuInt4)):
            coded = choose_formats(quantization, CPU, torch.bfloat16, given).coded
            assert coded is not None
            assert type(coded(draw_codes(group), None)) is form


def made(weight: torch.Tensor, bias: torch.Tensor | None, kernels: Kernels) -> ByteInt4:
    return ByteInt4(quantize_int4(weight, torch.bfloat16), bias, kernels)


@pytest.mark.parametrize("settings", [QWEN2, QWEN3], ids=["qwen2", "qwen3"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_of_few_rows_are_what_pytorch_makes_of_them(
    kernels: Kernels, settings: dict[str, object], dtype: torch.dtype
) -> None:
    formats = WeightFormats(partial(made, kernels=kernels), partial(made, kernels=kernels))
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
    linear = Linear(ByteInt4(draw_codes(32), None, kernels))
    x = draw(40, INPUTS)
    for deterministic in (False, True):
        assert torch.equal(NativeLinear(linear, torch.float32, kernels, deterministic=deterministic)(x), linear(x))
