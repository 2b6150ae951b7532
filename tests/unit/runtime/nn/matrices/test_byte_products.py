"""Weights of 4, 6 and 8 bits, and rows of 8, by the kernels: against the same by PyTorch's numbers."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from runtime.checkpoint.stored import CodeFormat, GroupCodes
from runtime.devices.native.kernels import Kernels
from runtime.devices.native.structures import LANES
from runtime.nn.matrices import byte_products
from runtime.nn.matrices.arithmetic import TINY, hadamard_matrix, hadamard_rotate, quantize_int4, quantize_int8
from runtime.nn.matrices.byte_products import ByteCodes, ByteInt8, ByteMatrix
from runtime.nn.matrices.int4 import CpuInt4
from runtime.nn.matrices.int8 import DynamicInt8, has_integer_products
from runtime.nn.matrices.linear import Linear, WeightFormats
from runtime.nn.matrices.native import NativeLinear
from tests.models.layers.native_models import QWEN2, QWEN3, both, difference, run, segments_of
from tests.rows import every_row
from tests.unit.runtime.nn.matrices.products import draw, draw_codes, error

CPU = torch.device("cpu")
OUTPUTS, INPUTS = 208, 512  # whole pieces of outputs, and no larger ones
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 32, 33, 64, 67, 200)  # of all remainders, and of two slabs
DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = 1e-3  # here and there a number that is halfway between two bytes is rounded to the other one

# Of codes: bits, group, and whether there are zeros.
CODES = {
    "int4 by 32": (4, 32, True),
    "int4 by 64": (4, 64, True),
    "int4 by 128": (4, 128, True),
    "int4 by 32, no zeros": (4, 32, False),
    "int4 by 64, no zeros": (4, 64, False),
    "int6 by 16": (6, 16, False),
    "int6 by 32": (6, 32, False),
}
KINDS = ["int8", *CODES]
kinds = every_row("kind", KINDS)


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of several slabs, the last of which is smaller."""
    monkeypatch.setattr(byte_products, "SLAB", 3 * LANES * INPUTS)


def codes_of(kind: str) -> GroupCodes:
    bits, group, zeros = CODES[kind]
    return draw_codes(group, OUTPUTS, INPUTS, bits=bits, zeros=zeros)


def weight_of(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return draw(OUTPUTS, INPUTS, dtype=dtype)


def made(kind: str, kernels: Kernels, bias: torch.Tensor | None = None) -> ByteMatrix:
    return ByteInt8(weight_of(), bias, kernels) if kind == "int8" else ByteCodes(codes_of(kind), bias, kernels)


def by_integers(x: torch.Tensor) -> torch.Tensor:
    """The product as `ByteInt8` promises it, in float64."""
    rotation = hadamard_matrix(INPUTS)
    quantised, scales = quantize_int8(weight_of(), rotation)
    even = hadamard_rotate(x, rotation)
    largest = even.abs().amax(-1, keepdim=True).clamp_(min=TINY)
    whole = (even / largest * 127).round().double()
    return whole @ quantised.double().T * scales.double() * largest.double() / 127


def by_codes(x: torch.Tensor, codes: GroupCodes) -> torch.Tensor:
    """The product as `ByteCodes` promises it, in float64: rows in bytes, by blocks of 32."""
    scales, zeros = (part.bfloat16().double().repeat_interleave(codes.group, 1) for part in (codes.scales, codes.zeros))
    full = (codes.codes.double() - codes.format.middle) * scales + zeros
    blocks = x.float().view(x.shape[0], -1, 32)
    largest = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    return ((blocks / largest * 127).round().double() * largest.double() / 127).view(x.shape) @ full.T


@kinds
@every_row("dtype", DTYPES)
@every_row("biased", [False, True])
def test_products_are_those_of_whole_numbers(kernels: Kernels, kind: str, dtype: torch.dtype, *, biased: bool) -> None:
    bias = draw(OUTPUTS, seed=2, dtype=dtype) if biased else None
    product = made(kind, kernels, bias)
    for rows in ROWS:
        x = draw(rows, INPUTS, seed=rows, dtype=dtype)
        x[:, 7] += 40  # as some columns of trained models are
        exact = by_integers(x) if kind == "int8" else by_codes(x, codes_of(kind))
        y = product(x)
        assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
        expected = exact if bias is None else exact + bias.double()
        assert error(y, expected) < (TOLERANCE if dtype == torch.float32 else 4e-3), rows


@pytest.mark.skipif(not has_integer_products(CPU), reason="no FBGEMM, or a processor without VNNI")
def test_eight_bits_are_fbgemms(kernels: Kernels) -> None:
    bias, x = draw(OUTPUTS, seed=2), draw(5, INPUTS, seed=1)
    assert error(made("int8", kernels, bias)(x), DynamicInt8(weight_of(), bias)(x)) < TOLERANCE


def test_what_eight_bits_of_a_row_lose_is_little_beside_four_of_the_weights(kernels: Kernels) -> None:
    weight, x = weight_of(), draw(5, INPUTS, seed=1)
    x[:, 7] += 40  # as some columns of trained models are
    codes, exact = quantize_int4(weight, torch.bfloat16), x @ weight.T
    assert error(ByteCodes(codes, None, kernels)(x), exact) < 1.02 * error(CpuInt4(codes, None)(x), exact)


@pytest.mark.parametrize(("kind", "bits"), [("int4 by 32", 5), ("int4 by 32, no zeros", 4.5), ("int6 by 16", 7)])
def test_what_codes_take(kernels: Kernels, kind: str, bits: float) -> None:
    """Zeros that are all 0 take nothing."""
    product = made(kind, kernels)
    assert product.nbytes == OUTPUTS * INPUTS * bits / 8
    assert product.form == kind.removesuffix(", no zeros")


@kinds
def test_a_row_does_not_depend_on_its_neighbours(kernels: Kernels, kind: str) -> None:
    product = made(kind, kernels)
    x = draw(max(ROWS), INPUTS)
    x *= torch.logspace(-3, 3, max(ROWS))[:, None]
    together = product(x)
    for rows in ROWS:
        assert torch.equal(product(x[:rows]), together[:rows])
    assert torch.equal(product(x[150:151]), together[150:151])


@kinds
@every_row("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_none_spoils_its_own_row_alone(kernels: Kernels, kind: str, broken: float) -> None:
    product = made(kind, kernels)
    x = draw(3, INPUTS)
    sound = product(x)
    x[1, 77] = broken
    own = product(x)
    assert not own[1].isfinite().any()
    assert torch.equal(own[[0, 2]], sound[[0, 2]])


@kinds
def test_rows_of_zeros_and_of_next_to_nothing_are_that(kernels: Kernels, kind: str) -> None:
    product = made(kind, kernels)
    assert torch.equal(product(torch.zeros(1, INPUTS)), torch.zeros(1, OUTPUTS))
    assert product(torch.full((1, INPUTS), 1e-37)).abs().max() < 1e-32
    assert error(product(draw(1, INPUTS) * 1e30) / 1e30, product(draw(1, INPUTS))) < TOLERANCE
    assert product(torch.empty(0, INPUTS)).shape == (0, OUTPUTS)


def test_the_largest_sums_of_eight_bits_do_not_overflow(kernels: Kernels) -> None:
    """All weights, and all rows once they are spread, are as large as a byte can be."""
    inputs = ByteInt8.MOST_INPUTS
    weight = hadamard_rotate(torch.ones(16, inputs), hadamard_matrix(inputs))
    for sign in (1, -1):
        y = ByteInt8(weight, None, kernels)(sign * weight[:1])
        assert error(y, torch.full((1, 16), float(sign * inputs))) < 1e-6


@pytest.mark.parametrize("shape", [(24, 64), (32, 96), (16, ByteInt8.MOST_INPUTS + 64)])
def test_eight_bits_of_other_sizes_are_not_taken(shape: tuple[int, int]) -> None:
    assert not ByteInt8.takes(*shape)


@pytest.mark.parametrize(
    ("shape", "codes"),
    [
        ((24, 64), CodeFormat(4, 32)),
        ((32, 64), CodeFormat(4, 16)),
        ((32, 96), CodeFormat(4, 64)),
        ((32, 64), CodeFormat(5, 32)),
        ((32, 80), CodeFormat(6, 16)),
        ((32, 96), CodeFormat(6, 24)),
    ],
    ids=str,
)
def test_codes_of_other_sizes_are_not_taken(shape: tuple[int, int], codes: CodeFormat) -> None:
    assert not ByteCodes.takes(*shape, codes)
    assert ByteCodes.takes(32, 64, CodeFormat(4, 32))
    assert ByteCodes.takes(32, 64, CodeFormat(6, 16))


def four_bits(weight: torch.Tensor, bias: torch.Tensor | None, kernels: Kernels) -> ByteCodes:
    return ByteCodes(quantize_int4(weight, torch.bfloat16), bias, kernels)


@every_row("settings", [QWEN2, QWEN3])
@every_row("dtype", DTYPES)
@every_row("own", [ByteInt8, four_bits])
def test_layers_of_few_rows_are_what_pytorch_makes_of_them(
    kernels: Kernels, own: type[ByteInt8], settings: dict[str, object], dtype: torch.dtype
) -> None:
    form = partial(own, kernels=kernels)
    plain, native = both(settings, dtype, kernels, WeightFormats(form, form))
    assert native.native_layers == native.num_layers
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in ({0: 50}, {1: 20}, {0: 1}, {0: 3, 1: 4}, {0: 20, 1: 12}):
            segments = segments_of(step, lengths)
            reference, found = run(plain, segments), run(native, segments)
            assert difference(found.hidden, reference.hidden) < (0.01 if dtype == torch.float32 else 0.05), step


@pytest.mark.parametrize("kind", ["int8", "int4 by 32", "int6 by 16"])
def test_a_head_of_many_rows(kernels: Kernels, kind: str) -> None:
    linear = Linear(made(kind, kernels))
    x = draw(40, INPUTS)
    for deterministic in (False, True):
        assert torch.equal(NativeLinear(linear, torch.float32, kernels, deterministic=deterministic)(x), linear(x))
