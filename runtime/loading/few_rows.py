"""What computes layers of few rows where PyTorch is not the fastest: kernels of its own, or CUDA graphs.

Where results are to be deterministic, the kernels compute all rows; it is refused here where there are none.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from runtime.cuda.capture import open_capture
from runtime.errors import CheckpointError
from runtime.native.kernels import open_kernels
from runtime.nn.matrices.native import NotInKernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.cuda.capture import Capture
    from runtime.native.kernels import Kernels


def open_few_rows(
    native: str, device: torch.device, *, deterministic: bool = False
) -> tuple[Kernels | None, Capture | None]:
    """Return the kernels that are to compute few rows on a CPU, and what records layers on CUDA; None for neither.

    To be called on the thread that runs the steps, whose number of CPU threads the kernels take over.

    Args:
        native: `auto`, or `off` for neither.
        device: of the model.
        deterministic: whether only the kernels will do.

    Raises:
        CheckpointError: only they will do, and there are none.
    """
    if deterministic:
        return _open_kernels_or_refuse(native, device), None
    if native != "auto":
        return None, None
    if device.type == "cpu":
        return open_kernels(torch.get_num_threads()), None
    return None, open_capture(device)


def not_deterministic(why: str) -> CheckpointError:
    """Return the error that says that a model cannot be computed so."""
    return CheckpointError(f"--deterministic on: {why}")


@contextmanager
def refused_as_not_deterministic() -> Iterator[None]:
    """Turn what the kernels do not have into such an error."""
    try:
        yield
    except NotInKernels as why:
        raise not_deterministic(f"what it takes are kernels, which do not have {why}") from None


def _open_kernels_or_refuse(native: str, device: torch.device) -> Kernels:
    if device.type != "cpu":
        raise not_deterministic(f"what it takes are kernels for CPUs, and the model is on {device.type} (--device cpu)")
    if native != "auto":
        raise not_deterministic(f"what it takes are the kernels that --native {native} leaves out")
    if (kernels := open_kernels(torch.get_num_threads())) is None:
        raise not_deterministic("what it takes are kernels, which cannot be used here; the log says why")
    return kernels
