"""Weights of 16 bits and rows of 32: the product is the full one's, since nothing is rounded."""

from __future__ import annotations

import pytest
import torch

from runtime.devices.native.kernels import Kernels
from runtime.devices.native.structures import MOST_ROWS
from runtime.nn.matrices import sixteen_bits
from runtime.nn.matrices.sixteen_bits import SixteenBits
from tests.unit.runtime.nn.matrices.products import INPUTS, OUTPUTS, draw, error

ROWS = (1, 2, 5, MOST_ROWS, MOST_ROWS + 1, 100)
dtypes = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several slabs to a matrix, the last of which is smaller."""
    monkeypatch.setattr(sixteen_bits, "SLAB", 50 * INPUTS)


@dtypes
@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_the_full_ones(kernels: Kernels, dtype: torch.dtype, *, onednn: bool, biased: bool) -> None:
    weight, bias = draw(OUTPUTS, INPUTS, dtype=dtype), draw(OUTPUTS, seed=2) if biased else None
    with pytest.MonkeyPatch.context() as patch:
        if not onednn:
            patch.setattr(sixteen_bits, "has_onednn", lambda device: False)
        product = SixteenBits(weight, bias, kernels)
    for rows in ROWS:
        x = draw(rows, INPUTS, seed=rows)
        exact = x.double() @ weight.double().T + (0.0 if bias is None else bias.double())
        y = product(x)
        assert (y.shape, y.dtype) == ((rows, OUTPUTS), torch.float32)
        assert error(y, exact) < 1e-6, rows
    assert product(draw(0, INPUTS)).shape == (0, OUTPUTS)


@dtypes
def test_the_smallest_and_the_largest_numbers_keep_their_bits(kernels: Kernels, dtype: torch.dtype) -> None:
    finfo = torch.finfo(dtype)
    tiny = 2.0**-24 if dtype is torch.float16 else finfo.tiny  # float16 has smaller ones than its smallest normal
    numbers = torch.tensor([finfo.max, finfo.min, tiny, -tiny, 0.0, 1.0 + finfo.eps], dtype=dtype)
    weight = torch.zeros(OUTPUTS, INPUTS, dtype=dtype)
    weight[: len(numbers), 3] = numbers
    x = torch.zeros(1, INPUTS)
    x[0, 3] = 1.0
    product = SixteenBits(weight, None, kernels)
    for rows in (1, MOST_ROWS + 1):
        assert torch.equal(product(x.expand(rows, -1))[-1, : len(numbers)], numbers.float())


@dtypes
def test_a_weight_that_is_no_number_spoils_its_own_output_alone(kernels: Kernels, dtype: torch.dtype) -> None:
    weight = draw(OUTPUTS, INPUTS, dtype=dtype)
    weight[5, 7], weight[6, 7] = torch.nan, torch.inf
    for rows in (1, MOST_ROWS + 1):
        y = SixteenBits(weight, None, kernels)(draw(rows, INPUTS))
        assert (~y.isfinite()).any(0).nonzero().flatten().tolist() == [5, 6]


@dtypes
def test_no_second_copy_is_kept(kernels: Kernels, dtype: torch.dtype) -> None:
    weight, bias = draw(OUTPUTS, INPUTS, dtype=dtype), draw(OUTPUTS)
    product = SixteenBits(weight, bias, kernels)
    assert product.weight is weight
    assert product.described.weight == weight.data_ptr()
    assert product.nbytes == weight.nbytes + bias.nbytes
    assert product.form == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(("shape", "taken"), [((16, 16), True), ((24, 16), False), ((16, 24), False)])
def test_shapes_in_whole_vectors_are_taken(shape: tuple[int, int], *, taken: bool) -> None:
    assert SixteenBits.takes(*shape) is taken
