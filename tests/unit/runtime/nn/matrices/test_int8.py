"""Eight bits on devices whose kernels take not every shape or dtype."""

from __future__ import annotations

import pytest
import torch

from runtime.nn.matrices.arithmetic import quantize_int8
from runtime.nn.matrices.int8 import WeightInt8, kernel_dtype
from tests.fakes.devices.mps import MPS, fake_mps
from tests.models.step_driver import CPU
from tests.unit.runtime.nn.matrices.products import INPUTS, OUTPUTS, draw, error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_products_are_those_of_the_expanded_weights(dtype: torch.dtype) -> None:
    weight, x = draw(OUTPUTS, INPUTS, dtype=dtype), draw(5, INPUTS, seed=1, dtype=dtype)
    quantised, scales = quantize_int8(weight)
    y = WeightInt8(weight, None)(x)
    assert y.dtype == dtype
    assert error(y, x.float() @ (quantised * scales[:, None]).T) <= 0.004


@pytest.mark.parametrize(("outputs", "inputs"), [(64, 96), (72, 96), (64, 100)])
def test_mps_multiplies_without_its_kernel_where_that_takes_multiples_of_32(outputs: int, inputs: int) -> None:
    with fake_mps() as traffic:
        weight = torch.empty(outputs, inputs, dtype=torch.bfloat16, device=MPS)
        product = WeightInt8(weight, None)
        traffic.clear()
        kernel = torch._weight_int8pack_mm

        def strict(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
            assert packed.shape[0] % 32 == 0
            assert packed.shape[1] % 32 == 0
            return kernel(x, packed, scales)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "_weight_int8pack_mm", strict)
            y = product(torch.empty(3, inputs, dtype=torch.bfloat16, device=MPS))
        assert (y.shape, y.dtype, y.device) == ((3, outputs), torch.bfloat16, MPS)
        assert (traffic.read, traffic.sent) == ([], [])


@pytest.mark.parametrize("inputs", [8, 24, 500])
@pytest.mark.parametrize("rows", [1, 5])
def test_inputs_that_the_cpus_kernel_would_read_past_are_multiplied_without_it(inputs: int, rows: int) -> None:
    weight, x = draw(OUTPUTS, inputs), draw(rows, inputs, seed=1)
    assert error(WeightInt8(weight, torch.ones(OUTPUTS))(x), x @ weight.T + 1) <= 0.012


def test_what_kernels_compute_in() -> None:
    assert kernel_dtype(CPU, torch.float32) == kernel_dtype(CPU, torch.float16) == torch.bfloat16
    assert kernel_dtype(MPS, torch.float16) == torch.float16
