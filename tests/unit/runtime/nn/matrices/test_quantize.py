"""Weights in 8 and 4 bits: near the full ones, each row by itself, and faults still show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from runtime.kv.blocks import root_key
from runtime.nn.matrices.linear import PlainMatrix
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.matrices.quantize import (
    DEQUANTIZE_ROWS,
    GROUP,
    CpuInt4,
    DynamicInt8,
    WeightInt4,
    WeightInt8,
    choose_formats,
    hadamard_matrix,
    hadamard_rotate,
    has_integer_products,
    quantize_int4,
    quantize_int8,
)
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import CPU, Running, generate, open_transformer, random_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.nn.matrices.linear import MatrixFormat

needs_vnni = pytest.mark.skipif(not has_integer_products(CPU), reason="no FBGEMM, or a processor without VNNI")
FORMS = [pytest.param(DynamicInt8, marks=needs_vnni), WeightInt8, CpuInt4]
ERROR: dict[MatrixFormat, float] = {
    DynamicInt8: 0.015,
    WeightInt8: 0.012,
    CpuInt4: 0.12,
}  # share of a product
OUTPUTS, INPUTS = 192, 128


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, DEQUANTIZE_ROWS])
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_near_the_full_ones(form: MatrixFormat, dtype: torch.dtype, rows: int, biased: bool) -> None:
    weight, x = _random(OUTPUTS, INPUTS, dtype=dtype), _random(rows, INPUTS, seed=1, dtype=dtype)
    bias = _random(OUTPUTS, seed=2, dtype=dtype) if biased else None
    expected = PlainMatrix(weight.float(), None if bias is None else bias.float())(x.float())
    product = form(weight, bias)
    y = product(x)
    assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
    assert (y - expected).norm() <= ERROR[form] * expected.norm()
    assert product.nbytes < 0.75 * weight.float().nbytes


@pytest.mark.parametrize("form", FORMS)
def test_a_few_large_columns_do_not_round_the_others_away(form: MatrixFormat) -> None:
    """All trained models have them.  With the rows' one scale in 8 bits, the error was 0.03 of the product."""
    weight, x = _random(OUTPUTS, INPUTS), _random(5, INPUTS, seed=1)
    x[:, 7] += 40
    expected = PlainMatrix(weight, None)(x)
    assert (form(weight, None)(x) - expected).norm() <= ERROR[form] * expected.norm()


@pytest.mark.parametrize("columns", [INPUTS, 96, 576, 24, 7])
def test_what_is_spread_has_the_same_products(columns: int) -> None:
    turn = hadamard_matrix(columns)
    assert columns % turn.shape[0] == 0
    weight, x = _random(3, columns, dtype=torch.bfloat16), _random(2, columns, seed=1)
    torch.testing.assert_close(hadamard_rotate(x, turn) @ hadamard_rotate(weight, turn).T, x @ weight.float().T)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_does_not_depend_on_its_neighbours(form: MatrixFormat) -> None:
    """Least of all on the size of theirs: with one scale for all, the small row would come out as zeros."""
    product = form(_random(OUTPUTS, INPUTS), None)
    small, large = _random(1, INPUTS, seed=1), _random(1, INPUTS, seed=2) * 1e4
    torch.testing.assert_close(product(torch.cat((small, large)))[:1], product(small))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_is_noticed(form: MatrixFormat, bad: float) -> None:
    x = _random(2, INPUTS, seed=1)
    x[0, 3] = bad
    y = form(_random(OUTPUTS, INPUTS), None)(x)
    assert not y[0].isfinite().all()
    assert y[1].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_zeros_stay_zeros(form: MatrixFormat) -> None:
    weight = _random(OUTPUTS, INPUTS)
    weight[3] = 0
    assert not form(weight, None)(torch.zeros(2, INPUTS)).any()
    assert not form(weight, None)(_random(2, INPUTS))[:, 3].any()


@pytest.mark.parametrize("outputs", [OUTPUTS, OUTPUTS + 16])
def test_many_rows_are_multiplied_with_the_weights_of_few(outputs: int) -> None:
    """Up to rounding: the kernel for few rows expands the same numbers.  Outputs may leave its last block half full."""
    product, x = CpuInt4(_random(outputs, INPUTS), None), _random(DEQUANTIZE_ROWS, INPUTS, seed=1)
    few = torch.cat([product(rows) for rows in torch.split(x, DEQUANTIZE_ROWS - 1)])
    torch.testing.assert_close(product(x), few, atol=1e-4, rtol=1e-4)


def test_each_weight_is_rounded_to_the_nearest_step() -> None:
    weight = _random(OUTPUTS, INPUTS)
    eight, scales = quantize_int8(weight)
    assert (eight * scales[:, None] - weight).abs().le(0.501 * scales[:, None]).all()
    four, scales, zeros = (part.float() for part in quantize_int4(weight))
    grouped = weight.view(OUTPUTS, -1, GROUP)
    expanded = (four.view_as(grouped) - 8) * scales[..., None] + zeros[..., None]
    assert (expanded - grouped).abs().le(0.501 * scales[..., None]).all()
    assert {four.min().item(), four.max().item()} == {0, 15}


# --- the choice ---------------------------------------------------------------------------------------------------


def test_where_kernels_take_no_four_bits_there_are_eight() -> None:
    formats = choose_formats(Quantization.INT4, CPU, torch.float32)
    assert isinstance(formats.layers(_random(OUTPUTS, INPUTS), None), CpuInt4)
    for shape in ((OUTPUTS + 1, INPUTS), (OUTPUTS, INPUTS + GROUP)):
        assert not isinstance(formats.layers(_random(*shape), None), CpuInt4)


def test_the_head_keeps_eight_bits() -> None:
    four = choose_formats(Quantization.INT4, CPU, torch.bfloat16)
    assert four.head is choose_formats(Quantization.INT8, CPU, torch.bfloat16).head


def test_other_devices_keep_full_activations() -> None:
    mps = torch.device("mps")
    assert choose_formats(Quantization.INT8, mps, torch.bfloat16).layers is WeightInt8
    with FakeTensorMode():
        form: MatrixFormat = choose_formats(Quantization.INT4, mps, torch.bfloat16).layers
        weight = torch.empty(64, 256, dtype=torch.bfloat16, device="meta")
        assert isinstance(form(weight, None), WeightInt4)
        assert isinstance(form(weight[:, :64], None), WeightInt8)


def test_a_processor_that_loses_sums_of_bytes_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert choose_formats(Quantization.INT8, CPU, torch.bfloat16).layers is WeightInt8


# --- a whole model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantization", Quantization)
def test_a_quantised_model_says_the_same_alone_and_in_company(quantization: Quantization, tmp_path: Path) -> None:
    FAMILIES["llama-bias"](tmp_path)
    formats = choose_formats(quantization, CPU, torch.float32)
    prompts = [random_tokens(n, below=256, seed=n) for n in (5, 23, 61)]
    alone = []
    for prompt in prompts:
        alone += generate(open_transformer(tmp_path, formats=formats), [Running(0, prompt)], 12)
    together = [Running(slot, prompt, chunk=7) for slot, prompt in enumerate(prompts)]
    assert generate(open_transformer(tmp_path, formats=formats), together, 12) == alone


def test_cached_keys_and_values_belong_to_one_quantisation() -> None:
    """What a quantised model computed is never served by another."""
    keys = {
        root_key(fingerprint="f" * 64, dtype="torch.bfloat16", kv_shape=(1, 2), quantization=quantization)
        for quantization in (None, *Quantization)
    }
    assert len(keys) == 3
