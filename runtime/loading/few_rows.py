"""Computation of few rows where PyTorch is not the fastest: kernels of its own, CUDA graphs, or kernels for MPS.

Where results are to be deterministic, the kernels compute all rows; it is refused here where they cannot.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch

from runtime.devices.native.kernels import open_kernels
from runtime.errors import CheckpointError
from runtime.nn.matrices.native import NotInKernels
from runtime.step.device import select_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.cuda.capture import Capture
    from runtime.devices.native.kernels import Kernels
    from runtime.devices.single_rows.rows import RowKernels
    from runtime.devices.single_rows.states import StateKernels
    from runtime.loading.options import LoadOptions


class FewRows(NamedTuple):
    """Kernels for few rows: those of one device, and none where PyTorch computes all.

    Attributes:
        kernels: compute layers on a CPU.
        capture: records layers on CUDA.
        row_kernels: attend on MPS.
        state_kernels: compute the rules of recurrent layers there.
    """

    kernels: Kernels | None = None
    capture: Capture | None = None
    row_kernels: RowKernels | None = None
    state_kernels: StateKernels | None = None


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
    native: str, config: ModelConfig, device: torch.device, dtype: torch.dtype, *, deterministic: bool = False
) -> FewRows:
    """Return what is to compute the few rows of a model.

    To be called on the thread that runs the steps, whose number of CPU threads the kernels take over.

    Args:
        native: `auto`, or `off` for nothing.
        config: the model's.
        device: of the model.
        dtype: of its KV.
        deterministic: whether only the kernels will do.

    Raises:
        CheckpointError: only they will do, and there are none.
    """
    found = FewRows()
    if native == "auto" and device.type == "cpu":
        found = FewRows(kernels=open_kernels(torch.get_num_threads()))
    elif native == "auto":
        from runtime.devices.cuda.capture import open_capture  # of other devices nothing is imported

        found = FewRows(
            capture=open_capture(device),
            row_kernels=open_row_kernels(config, device, dtype),
            state_kernels=open_state_kernels(config, device, dtype),
        )
    if deterministic and found.kernels is None:
        raise _refused("what it takes are kernels, which cannot be used here; the log says why")
    return found


def open_row_kernels(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> RowKernels | None:
    """Return what attends in a model's steps of few rows where nothing is recorded: on MPS; None elsewhere."""
    if device.type != "mps":
        return None
    from runtime.devices.mps.rows import open_rows

    return open_rows(config, device, dtype)


def open_state_kernels(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> StateKernels | None:
    """Return what computes the rules of recurrent layers in such steps; None where there are no such layers, too."""
    if device.type != "mps" or not config.is_hybrid:
        return None
    from runtime.devices.mps.compiling import agreeing
    from runtime.devices.mps.states import compile_states
    from runtime.nn.state_check import check_states

    compare = partial(check_states, config=config, device=device, dtype=dtype)
    return agreeing("recurrent layers", partial(compile_states, config, dtype), compare)


@contextmanager
def deterministic_or_refused() -> Iterator[None]:
    """Turn what the kernels do not have into such an error."""
    try:
        yield
    except NotInKernels as why:
        raise _refused(f"what it takes are kernels, which do not have {why}") from None


def _refused(why: str) -> CheckpointError:
    return CheckpointError(f"--deterministic on: {why}")
