"""Formats: which a matrix gets, and what a quantised product must be, in whatever format."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from runtime.devices.native.kernels import Kernels
from runtime.kv.blocks import root_key
from runtime.nn.matrices.arithmetic import GROUP
from runtime.nn.matrices.byte_products import ByteCodes, ByteInt8
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.int4 import EXPAND_ROWS, CpuInt4, WeightInt4
from runtime.nn.matrices.int8 import DynamicInt8, WeightInt8, has_integer_products
from runtime.nn.matrices.linear import MatrixFormat, PlainMatrix
from runtime.nn.matrices.quantization import Quantization
from tests.fakes.devices.mps import MPS, fake_mps
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import CPU, Running, generate, open_transformer, random_tokens
from tests.rows import every_row
from tests.unit.runtime.nn.matrices.products import INPUTS, OUTPUTS, draw, draw_codes, error

needs_vnni = pytest.mark.skipif(not has_integer_products(CPU), reason="no FBGEMM, or a processor without VNNI")
FORMS = [pytest.param(DynamicInt8, marks=needs_vnni), WeightInt8, CpuInt4.quantised]
ERROR: dict[MatrixFormat, float] = {DynamicInt8: 0.015, WeightInt8: 0.012, CpuInt4.quantised: 0.12}  # of a product


@pytest.mark.parametrize("form", FORMS)
@every_row("dtype", [torch.float32, torch.bfloat16])
@every_row("rows", [1, 5, EXPAND_ROWS])
@every_row("biased", [False, True])
def test_products_are_near_the_full_ones(form: MatrixFormat, dtype: torch.dtype, rows: int, biased: bool) -> None:
    weight, x = draw(OUTPUTS, INPUTS, dtype=dtype), draw(rows, INPUTS, seed=1, dtype=dtype)
    bias = draw(OUTPUTS, seed=2, dtype=dtype) if biased else None
    expected = PlainMatrix(weight.float(), None if bias is None else bias.float())(x.float())
    product = form(weight, bias)
    y = product(x)
    assert (y.shape, y.dtype) == ((rows, OUTPUTS), dtype)
    assert error(y, expected) <= ERROR[form]
    assert product.nbytes < 0.75 * weight.float().nbytes


@pytest.mark.parametrize("form", FORMS)
def test_a_few_large_columns_do_not_round_the_others_away(form: MatrixFormat) -> None:
    """All trained models have them.  With the rows' one scale in 8 bits, the error was 0.03 of the product."""
    weight, x = draw(OUTPUTS, INPUTS), draw(5, INPUTS, seed=1)
    x[:, 7] += 40
    expected = PlainMatrix(weight, None)(x)
    assert error(form(weight, None)(x), expected) <= ERROR[form]


@pytest.mark.parametrize("form", FORMS)
def test_a_row_does_not_depend_on_its_neighbours(form: MatrixFormat) -> None:
    """Least of all on the size of theirs: with one scale for all, the small row would come out as zeros."""
    product = form(draw(OUTPUTS, INPUTS), None)
    small, large = draw(1, INPUTS, seed=1), draw(1, INPUTS, seed=2) * 1e4
    torch.testing.assert_close(product(torch.cat((small, large)))[:1], product(small))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_is_noticed(form: MatrixFormat, bad: float) -> None:
    x = draw(2, INPUTS, seed=1)
    x[0, 3] = bad
    y = form(draw(OUTPUTS, INPUTS), None)(x)
    assert not y[0].isfinite().all()
    assert y[1].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_zeros_stay_zeros(form: MatrixFormat) -> None:
    weight = draw(OUTPUTS, INPUTS)
    weight[3] = 0
    assert not form(weight, None)(torch.zeros(2, INPUTS)).any()
    assert not form(weight, None)(draw(2, INPUTS))[:, 3].any()


# --- the choice ---------------------------------------------------------------------------------------------------


def test_auto_keeps_what_the_file_has() -> None:
    formats, full = (
        choose_formats(Quantization.AUTO, CPU, torch.float32),
        choose_formats(Quantization.NONE, CPU, torch.float32),
    )
    assert (formats.layers, formats.head) == (full.layers, full.head)
    assert (formats.packed, formats.small_embedding) == (
        choose_formats(Quantization.INT8, CPU, torch.float32).layers,
        False,
    )
    assert formats.coded is not None
    assert (full.packed, full.coded) == (None, None)


def test_where_kernels_take_no_four_bits_there_are_eight() -> None:
    formats = choose_formats(Quantization.INT4, CPU, torch.float32)
    assert isinstance(formats.layers(draw(OUTPUTS, INPUTS), None), CpuInt4)
    for shape in ((OUTPUTS + 1, INPUTS), (OUTPUTS, INPUTS + GROUP // 2)):
        assert not isinstance(formats.layers(draw(*shape), None), CpuInt4)


def test_the_head_keeps_eight_bits() -> None:
    four = choose_formats(Quantization.INT4, CPU, torch.bfloat16)
    assert four.head is choose_formats(Quantization.INT8, CPU, torch.bfloat16).head


def test_a_head_that_the_kernels_compute_keeps_full_activations(kernels: Kernels) -> None:
    """Whatever becomes of the layers: also where the file has it in few bits."""
    for quantization in (Quantization.INT8, Quantization.INT4):
        assert choose_formats(quantization, CPU, torch.float32, kernels).head is WeightInt8
    assert choose_formats(Quantization.AUTO, CPU, torch.float32, kernels).packed_head is WeightInt8


@needs_vnni
def test_the_kernels_multiply_bytes_where_they_take_the_shape(kernels: Kernels) -> None:
    for quantization in (Quantization.AUTO, Quantization.INT8):
        formats = choose_formats(quantization, CPU, torch.float32, kernels)
        form: MatrixFormat = formats.packed or formats.layers
        assert isinstance(form(draw(64, 128), None), ByteInt8)
        assert isinstance(form(draw(24, 128), None), DynamicInt8)
        assert isinstance(form(draw(64, 96), None), DynamicInt8)


@needs_vnni
def test_codes_are_kept_by_the_kernels_where_they_take_them(kernels: Kernels) -> None:
    for quantization in (Quantization.AUTO, Quantization.INT4):
        for given, group, form in ((kernels, 32, ByteCodes), (kernels, 16, CpuInt4), (None, 32, CpuInt4)):
            coded = choose_formats(quantization, CPU, torch.bfloat16, given).coded
            assert coded is not None
            assert type(coded(draw_codes(group), None)) is form


@needs_vnni
def test_six_bits_are_kept_where_nothing_else_was_asked_for_and_kernels_take_them(kernels: Kernels) -> None:
    six = draw_codes(16, bits=6, zeros=False)
    for quantization, given, taken in (
        (Quantization.AUTO, kernels, True),
        (Quantization.AUTO, None, False),
        (Quantization.INT4, kernels, False),
    ):
        coded = choose_formats(quantization, CPU, torch.bfloat16, given).coded
        assert coded is not None
        assert coded.takes(OUTPUTS, INPUTS, six.format) == taken
        if taken:
            assert coded(six, None).form == "int6 by 16"


def test_sixteen_bits_are_kept_where_kernels_widen_them_and_nothing_less_is_asked_for(kernels: Kernels) -> None:
    for quantization in Quantization:
        kept = quantization in (Quantization.AUTO, Quantization.NONE)
        assert (choose_formats(quantization, CPU, torch.float32, kernels).narrow is not None) == kept
        assert choose_formats(quantization, CPU, torch.bfloat16, kernels).narrow is None
        assert choose_formats(quantization, CPU, torch.float32).narrow is None


def test_other_devices_keep_full_activations() -> None:
    assert choose_formats(Quantization.INT8, MPS, torch.bfloat16).layers is WeightInt8
    with fake_mps():
        form: MatrixFormat = choose_formats(Quantization.INT4, MPS, torch.bfloat16).layers
        weight = torch.empty(64, 256, dtype=torch.bfloat16, device=MPS)
        assert isinstance(form(weight, None), WeightInt4)
        assert isinstance(form(weight[:, :48], None), WeightInt8)


def test_a_processor_that_loses_sums_of_bytes_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert choose_formats(Quantization.INT8, CPU, torch.bfloat16).layers is WeightInt8


@pytest.mark.parametrize("by_bytes", [True, False])
def test_kernels_say_whether_they_multiply_bytes(
    kernels: Kernels, by_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they do not take is not FBGEMM's where that is not: builds of PyTorch for Arm lack it."""
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    monkeypatch.setattr(kernels, "multiplies_bytes", by_bytes)
    form = choose_formats(Quantization.INT8, CPU, torch.float32, kernels).layers
    assert isinstance(form(draw(64, 128), None), ByteInt8 if by_bytes else WeightInt8)
    assert isinstance(form(draw(24, 128), None), WeightInt8)
    coded = choose_formats(Quantization.INT4, CPU, torch.float32, kernels).coded
    assert coded is not None
    assert isinstance(coded(draw_codes(32), None), ByteCodes if by_bytes else CpuInt4)


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
        root_key(fingerprint="f" * 64, dtype="torch.bfloat16", kv_shape=(1, 2), quantization=quantization.identity)
        for quantization in Quantization
    }
    assert len(keys) == len(Quantization)
