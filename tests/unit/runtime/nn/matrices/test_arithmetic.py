"""Rounding weights to few bits, and rotating rows."""

from __future__ import annotations

import pytest
import torch

from runtime.nn.matrices.arithmetic import GROUP, hadamard_matrix, hadamard_rotate, quantize_int4, quantize_int8
from tests.unit.runtime.nn.matrices.products import INPUTS, OUTPUTS, draw


@pytest.mark.parametrize("columns", [INPUTS, 96, 576, 24, 7])
def test_what_is_spread_has_the_same_products(columns: int) -> None:
    turn = hadamard_matrix(columns)
    assert columns % turn.shape[0] == 0
    weight, x = draw(3, columns, dtype=torch.bfloat16), draw(2, columns, seed=1)
    torch.testing.assert_close(hadamard_rotate(x, turn) @ hadamard_rotate(weight, turn).T, x @ weight.float().T)


def test_each_weight_is_rounded_to_the_nearest_step() -> None:
    weight = draw(OUTPUTS, INPUTS)
    eight, scales = quantize_int8(weight)
    assert (eight * scales[:, None] - weight).abs().le(0.501 * scales[:, None]).all()
    four = quantize_int4(weight, torch.float32)
    steps = four.scales.repeat_interleave(GROUP, 1)
    assert (four.expand() - weight).abs().le(0.501 * steps).all()
    assert {four.codes.min().item(), four.codes.max().item()} == {0, 15}


def test_scales_are_rounded_before_codes_are_chosen() -> None:
    weight = draw(OUTPUTS, INPUTS)
    codes = quantize_int4(weight, torch.bfloat16)
    for numbers in (codes.scales, codes.zeros):
        assert torch.equal(numbers, numbers.bfloat16().float())
    assert (codes.expand() - weight).abs().le(0.56 * codes.scales.repeat_interleave(GROUP, 1)).all()
