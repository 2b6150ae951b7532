"""What computes layers of few rows where PyTorch is not the fastest: kernels of its own, or CUDA graphs.

Where results are to be deterministic, the kernels compute all rows; it is refused here where they cannot.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from runtime.cuda.capture import open_capture
from runtime.errors import CheckpointError
from runtime.native.kernels import open_kernels
from runtime.nn.matrices.native import NotInKernels
from runtime.step.device import select_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.cuda.capture import Capture
    from runtime.loading.options import LoadOptions
    from runtime.native.kernels import Kernels


def check_deterministic(options: LoadOptions) -> None:
    """Check that a model that is to be deterministic is computed by the kernels alone, as far as the options say it.

    Raises:
        CheckpointError: it is not.
    """
    if not options.is_deterministic:
        return
    if (device := select_device(options.device)).type != "cpu":
        raise _refused(f"what it takes are kernels for CPUs, and the model is on {device.type} (--device cpu)")
    if options.native != "auto":
        raise _refused(f"what it takes are the kernels that --native {options.native} leaves out")
    if (ranks := options.tensor_parallel) > 1:
        raise _refused(f"what it takes are kernels, without which the ranks of --tensor-parallel {ranks} compute")


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
    kernels, capture = None, None
    if native == "auto" and device.type == "cpu":
        kernels = open_kernels(torch.get_num_threads())
    elif native == "auto":
        capture = open_capture(device)
    if deterministic and kernels is None:
        raise _refused("what it takes are kernels, which cannot be used here; the log says why")
    return kernels, capture


@contextmanager
def deterministic_or_refused() -> Iterator[None]:
    """Turn what the kernels do not have into such an error."""
    try:
        yield
    except NotInKernels as why:
        raise _refused(f"what it takes are kernels, which do not have {why}") from None


def _refused(why: str) -> CheckpointError:
    return CheckpointError(f"--deterministic on: {why}")
