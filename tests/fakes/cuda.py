"""CUDA's graphs and kernels without a GPU: what is recorded is done again, and Triton's interpreter runs kernels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.cuda.rows import RowKernels

if TYPE_CHECKING:
    from collections.abc import Callable

if "PYTEST_XDIST_WORKER" in os.environ:
    # Failed there, in the whole suite, for a reason not found yet.
    pytest.skip("run these without -n: pytest tests/unit/runtime/cuda", allow_module_level=True)

with pytest.MonkeyPatch.context() as environment:
    environment.setenv("TRITON_INTERPRET", "1")  # read by imports; servers that tests start shall not see it
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    from runtime.cuda.kernels import attend_split, join_splits, write_rows

    environment.setattr(triton.knobs, "propagate_env", False)
    triton.knobs.runtime.interpret = True  # read later on, as well


class InterpretedCapture:
    """Stands in for `CudaCapture`.

    Attributes:
        kernels: as of `Capture`.
        done: one entry for each work that was done, when it was recorded and each time after.
    """

    def __init__(self) -> None:
        self.kernels = RowKernels(write_rows, attend_split, join_splits)
        self.done: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        """Do the work, and return what does it again."""

        def do() -> None:
            work()
            self.done.append(work)

        do()
        return do
