"""Where oneDNN has a packed weight, as far as the kernels know its layout."""

from __future__ import annotations

import ctypes

import pytest
import torch

from runtime.nn.matrices.linear import BlockedMatrix, has_onednn
from runtime.nn.matrices.panels import PANEL

pytestmark = pytest.mark.skipif(not has_onednn(torch.device("cpu")), reason="this PyTorch has no oneDNN for x86")


@pytest.mark.parametrize(("outputs", "inputs"), [(3 * PANEL, 80), (2 * PANEL, 64), (PANEL, 40), (PANEL, 33)])
def test_a_packed_weight_that_is_found_lies_there(outputs: int, inputs: int) -> None:
    """Each output's weights are in the panel that they are said to be in; how oneDNN packs is the processor's."""
    weight = torch.arange(outputs * inputs, dtype=torch.float32).view(outputs, inputs)
    matrix = BlockedMatrix(weight, None)
    if (address := matrix.panel_address) is None:
        assert inputs % 16 or torch.backends.cpu.get_cpu_capability() != "AVX2", "there, whole panels were found"
        return
    memory = (ctypes.c_float * weight.numel()).from_address(address)
    panels = torch.frombuffer(memory, dtype=torch.float32).view(-1, inputs, PANEL)
    assert torch.equal(panels.transpose(1, 2).reshape(outputs, inputs), weight)


def test_two_weights_of_a_shape_have_memory_of_their_own() -> None:
    matrices = [BlockedMatrix(torch.full((PANEL, 32), float(i)), None) for i in (1, 2)]
    found = [ctypes.c_float.from_address(matrix.panel_address or 0).value for matrix in matrices]
    assert found == [1.0, 2.0]


@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (48, 64)])
def test_one_that_is_not_in_whole_panels_is_not_found(outputs: int, inputs: int) -> None:
    assert BlockedMatrix(torch.zeros(outputs, inputs), None).panel_address is None
