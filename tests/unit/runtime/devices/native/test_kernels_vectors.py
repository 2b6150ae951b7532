"""The functions of sixteen numbers at a time, against the same in float64."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch.backends import cpu

from tests.unit.runtime.devices.native.building import build

if TYPE_CHECKING:
    from collections.abc import Callable


TARGETS = {"avx2": ("avx2", "fma", "f16c"), "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq", "fma")}


@pytest.fixture(scope="module", params=TARGETS)
def vectors(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """A library with the functions, for each set of instructions that this processor has."""
    if request.param not in {"AVX512": ("avx2", "avx512"), "AVX2": ("avx2",)}.get(cpu.get_cpu_capability(), ()):
        pytest.skip("this processor has other instructions")
    # GCC 12 thinks that what its own headers leave undefined on purpose is used.
    flags = [
        "-Wno-uninitialized",
        f'-DVECTORS="vectors_{request.param}.h"',
        *(f"-m{x}" for x in TARGETS[request.param]),
    ]
    return ctypes.CDLL(str(build(Path(__file__).with_name("vectors.cpp"), "-O2", "-shared", "-fPIC", *flags)))


def apply(function: Callable[..., None], x: torch.Tensor) -> torch.Tensor:
    """The function of each number; there are a multiple of sixteen."""
    to = torch.empty_like(x)
    function(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(to.data_ptr()), x.numel())
    return to


def test_an_exponential_is_within_two_units_in_the_last_place(vectors: ctypes.CDLL) -> None:
    x = torch.linspace(-87, 88, 1 << 16)
    own, exact = apply(vectors.exponential_of, x).double(), x.double().exp()
    unit = 2.0 ** (exact.log2().floor() - 23)
    assert float(((own - exact) / unit).abs().max()) <= 2


def test_what_is_too_large_or_too_small_is_as_large_or_small_as_can_be(vectors: ctypes.CDLL) -> None:
    x = torch.tensor([89.0, 1e30, math.inf, -88.0, -1e30, -math.inf] + [0.0] * 10)
    largest, smallest = math.exp(88.0), math.exp(-87.3)
    expected = torch.tensor([largest] * 3 + [smallest] * 3 + [1.0] * 10)
    torch.testing.assert_close(apply(vectors.exponential_of, x), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["exponential_of", "silu_of", "gelu_of", "softplus_of", "sigmoid_of"])
def test_what_is_not_a_number_stays_so_and_its_neighbours_do_not_notice(vectors: ctypes.CDLL, name: str) -> None:
    """Else attention would leave out a key that is broken, and the step would pass for sound."""
    x = torch.linspace(-3, 3, 16)
    expected = apply(getattr(vectors, name), x)
    for lane in range(16):
        broken = x.clone()
        broken[lane] = math.nan
        own = apply(getattr(vectors, name), broken)
        assert own.isnan().tolist() == [place == lane for place in range(16)]
        assert torch.equal(own.nan_to_num(0), expected.masked_fill(broken.isnan(), 0))


def test_a_sigmoid_linear_unit_is_what_pytorch_computes(vectors: ctypes.CDLL) -> None:
    x = torch.linspace(-80, 80, 1 << 12)
    torch.testing.assert_close(apply(vectors.silu_of, x), torch.nn.functional.silu(x), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("name", ["softplus", "sigmoid"])
def test_what_a_state_decays_and_is_corrected_by_is_what_pytorch_computes(vectors: ctypes.CDLL, name: str) -> None:
    """However small it is, for that adds up over rows."""
    x = torch.linspace(-80, 80, 1 << 12)
    exact = x.double().sigmoid() if name == "sigmoid" else torch.nn.functional.softplus(x.double())
    torch.testing.assert_close(apply(getattr(vectors, f"{name}_of"), x), exact.float(), rtol=1e-6, atol=1e-34)


def test_a_gaussian_error_linear_unit_is_what_pytorch_computes(vectors: ctypes.CDLL) -> None:
    """By the approximation that uses tanh; PyTorch's loses most bits where the result is small."""
    x = torch.linspace(-80, 80, 1 << 12)
    expected = torch.nn.functional.gelu(x.double(), approximate="tanh").float()
    torch.testing.assert_close(apply(vectors.gelu_of, x), expected, rtol=1e-5, atol=1e-6)
