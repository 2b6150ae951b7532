"""CUDA's graphs and kernels without a GPU: what is recorded is done again, and Triton's interpreter runs kernels."""

from __future__ import annotations

import pytest

from runtime.devices.cuda.rows import TritonRows
from tests.fakes.devices.interpreter import triton

if triton is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

from collections.abc import Callable

from runtime.devices.cuda.kernels import attend_split, join_splits, write_rows
from runtime.devices.single_rows.rows import RowKernels


class InterpretedCapture:
    """Stands in for `CudaCapture`.

    Attributes:
        kernels: as of `Capture`.
        done: one entry for each work that was done, when it was recorded and each time after.
        refused_from: how many works are recorded, before it raises as PyTorch does; None for all.
    """

    def __init__(self) -> None:
        self.kernels: RowKernels = TritonRows(write_rows, attend_split, join_splits)
        self.done: list[Callable[[], None]] = []
        self.refused_from: int | None = None

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        """Do the work, and return what does it again."""
        if self.refused_from == len(self.done):
            raise RuntimeError("the stream is capturing")

        def do() -> None:
            work()
            self.done.append(work)

        do()
        return do
