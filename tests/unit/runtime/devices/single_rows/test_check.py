"""Comparison of kernels with PyTorch's operations: what it passes, and what it notices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from runtime.devices.mps.rows import MetalRows
from runtime.devices.single_rows.check import WrongRows, check_rows
from runtime.devices.single_rows.rows import RowTable, Scoring
from tests.fakes.devices.metal.compiled import Library, Shim

CPU, DIM = torch.device("cpu"), 40


class Changed:
    """Compiles another source in a source's place."""

    def __init__(self, shim: Shim, old: str, new: str) -> None:
        self._shim, self._old, self._new = shim, old, new

    def __call__(self, source: str) -> Library:
        """Compile it with an edit."""
        assert source.count(self._old) == 1
        return self._shim(source.replace(self._old, self._new))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [8, 80, 128, 256])
def test_kernels_of_metal_are_what_pytorch_computes(shim: Shim, dtype: torch.dtype, dim: int) -> None:
    error = check_rows(MetalRows(shim, dtype, dim), CPU, dtype, dim)
    assert error < {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}[dtype]


def test_kernels_of_triton_are_what_pytorch_computes() -> None:
    from tests.fakes.devices.cuda import InterpretedCapture  # it skips what imports it where there is no Triton

    assert check_rows(InterpretedCapture().kernels, CPU, torch.float16, DIM) < 5e-4


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        ("head / group * kv_head", "head % group * kv_head", "rows of several sequences"),
        ("int first = int(table[2 * rows + row]);", "int first = 0;", "rows of several sequences"),
        ("first = max(first, end - int(window));", "", "a window"),
        ("table[rows + row] % ring : place", "table[rows + row] % (ring - 1) : place", "rings"),
        ("seen % int(ring)", "(seen + 1) % int(ring)", "rings"),
        ("total = total * exp(largest - top) + exp(sink - top);", "total = total * exp(largest - top);", "sinks"),
        ("score = cap * precise::tanh(score / cap);", "score = cap * score / cap;", "capped scores"),
        ("weight = exp(left[i * PART + DIM] - largest);", "weight = 1.0f;", "rows of several sequences"),
        ("threadgroup_barrier(mem_flags::mem_threadgroup);", "", "rows of several sequences"),
        ("return sum / (total", "return (sum + 1e-3f) / (total", "rows of several sequences"),
    ],
)
def test_a_kernel_that_is_wrong_is_noticed(shim: Shim, old: str, new: str, case: str) -> None:
    with pytest.raises(WrongRows, match=f"differ from PyTorch's operations by .*: {case}$"):
        check_rows(MetalRows(Changed(shim, old, new), torch.float32, DIM), CPU, torch.float32, DIM)


class Lazy(MetalRows):
    """Attends, and stores nothing."""

    def write(self, keys_values: Tensor, layer: Tensor, ring: int | None, table: RowTable) -> None:
        """Do nothing."""


class Zeros(MetalRows):
    """Stores, and attends to nothing."""

    def attend(
        self, query: Tensor, kv_heads: int, layer: Tensor, ring: int | None, table: RowTable, scoring: Scoring
    ) -> Tensor:
        """Return zeros."""
        return query.new_zeros(query.shape[0], query.shape[1] * query.shape[2])


@pytest.mark.parametrize(("kind", "error"), [(Lazy, "nan"), (Zeros, r"1\.0e\+00")])
def test_kernels_that_do_nothing_are_noticed(shim: Shim, kind: type[MetalRows], error: str) -> None:
    with pytest.raises(WrongRows, match=f"by {error}: "):
        check_rows(kind(shim, torch.float32, DIM), CPU, torch.float32, DIM)
