"""Findings of the self-test about the kernels for few rows; its other checks go through them."""

from __future__ import annotations

import pytest
import torch

from runtime.devices.mps.rows import MetalRows
from runtime.nn.model import Transformer
from runtime.selftest.findings import Mismatch, NotHere
from runtime.selftest.parity import Parity
from runtime.selftest.single_rows import check_few_states, check_single_rows
from tests.fakes.devices.metal.compiled import Library, Shim


def of(model: Transformer, compile_shader: Shim) -> MetalRows:
    return MetalRows(compile_shader, torch.float32, model.config.head_dim)


def test_kernels_that_are_right_pass(model: Transformer, shim: Shim) -> None:
    model.row_kernels = of(model, shim)
    figures = check_single_rows(model)
    assert 0 < float(figures["worst_error"]) < 1e-5


def test_kernels_that_are_wrong_are_told(model: Transformer, shim: Shim) -> None:
    def compile_shader(source: str) -> Library:
        return shim(source.replace("top = largest;", "", 1))

    model.row_kernels = MetalRows(compile_shader, torch.float32, model.config.head_dim)
    with pytest.raises(Mismatch, match="they differ from PyTorch's operations by "):
        check_single_rows(model)


def test_where_there_are_none_nothing_is_checked(model: Transformer) -> None:
    for check in (check_single_rows, check_few_states):
        with pytest.raises(NotHere, match="there are none"):
            check(model)


def test_the_other_checks_go_through_them(model: Transformer, parity: Parity, shim: Shim) -> None:
    shim.launched.clear()
    parity.verify()
    assert not shim.launched
    model.row_kernels = of(model, shim)
    beside = Parity(model, model, list(range(5, 25)), 4)
    shim.launched.clear()
    beside.trim_and_resume()
    beside.verify()
    assert shim.launched
