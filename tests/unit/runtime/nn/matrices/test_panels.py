"""Panels: where oneDNN has a packed weight, as far as the kernels know its layout."""

from __future__ import annotations

import ctypes

import pytest
import torch

from runtime.nn.matrices.linear import BlockedMatrix, has_bfloat16_products, has_onednn
from runtime.nn.matrices.panels import NARROW, PANEL

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not has_onednn(CPU), reason="this PyTorch has no oneDNN for x86")


@pytest.mark.parametrize(("outputs", "inputs"), [(3 * PANEL, 80), (2 * PANEL, 64), (PANEL, 40), (PANEL, 33)])
def test_a_packed_weight_that_is_found_lies_there(outputs: int, inputs: int) -> None:
    """Each output's weights are in the panel that they are said to be in; how oneDNN packs is the processor's."""
    weight = torch.arange(outputs * inputs, dtype=torch.float32).view(outputs, inputs)
    matrix = BlockedMatrix(weight, None)
    if (found := matrix.panels) is None:
        assert inputs % 16 or torch.backends.cpu.get_cpu_capability() != "AVX2", "there, whole panels were found"
        return
    memory = (ctypes.c_float * weight.numel()).from_address(found.address)
    panels = torch.frombuffer(memory, dtype=torch.float32).view(-1, inputs, found.outputs)
    assert torch.equal(panels.transpose(1, 2).reshape(outputs, inputs), weight)


@pytest.mark.skipif(not has_bfloat16_products(CPU), reason="this processor does not multiply bfloat16")
@pytest.mark.parametrize(("outputs", "inputs"), [(3 * PANEL, 64), (PANEL, 512)])
def test_weights_of_bfloat16_are_found_in_panels_of_one_width_or_the_other(outputs: int, inputs: int) -> None:
    weight = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(2)).bfloat16()
    matrix = BlockedMatrix(weight, None)
    found = matrix.panels
    assert found is not None
    assert found.outputs in (NARROW, PANEL)
    memory = (ctypes.c_byte * weight.nbytes).from_address(found.address)
    panels = torch.frombuffer(memory, dtype=torch.bfloat16).view(-1, inputs // 2, found.outputs, 2)
    assert torch.equal(panels.transpose(1, 2).reshape(outputs, inputs), weight)


def test_two_weights_of_a_shape_have_memory_of_their_own() -> None:
    matrices = [BlockedMatrix(torch.full((PANEL, 32), float(i)), None) for i in (1, 2)]
    addresses = [0 if matrix.panels is None else matrix.panels.address for matrix in matrices]
    assert [ctypes.c_float.from_address(address).value for address in addresses] == [1.0, 2.0]


@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (48, 64)])
def test_one_that_is_not_in_whole_panels_is_not_found(outputs: int, inputs: int) -> None:
    assert BlockedMatrix(torch.zeros(outputs, inputs), None).panels is None
