"""Check that the kernels for few rows of attention, and of recurrent layers, compute what PyTorch's operations do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.devices.mps.compiling import NoKernels
from runtime.devices.mps.rows import compile_rows
from runtime.devices.mps.states import compile_states
from runtime.devices.single_rows.check import WrongRows, check_rows
from runtime.nn.state_check import check_states
from runtime.selftest.findings import Figures, Mismatch, NotHere

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.devices.single_rows.rows import RowKernels
    from runtime.devices.single_rows.states import StateKernels
    from runtime.nn.model import Transformer


def check_single_rows(model: Transformer) -> Figures:
    """Compare them on the model's device, also where the model was loaded without them since they were wrong there.

    Raises:
        Mismatch: they differ.
        NotHere: the device has none, or they do not have the model.
    """
    own = model.weights.embedding.device, model.kv.dtype, model.config.head_dim
    return _error(lambda: check_rows(_row_kernels(model), *own))


def check_few_states(model: Transformer) -> Figures:
    """Likewise with the kernels for recurrent layers.

    Raises:
        Mismatch: they differ.
        NotHere: the device or the model has none, or they do not have the model.
    """
    own = model.config, model.weights.embedding.device, model.kv.dtype
    return _error(lambda: check_states(_state_kernels(model), *own))


def _error(compare: Callable[[], float]) -> Figures:
    try:
        return {"worst_error": compare()}
    except NoKernels as why:
        raise NotHere(f"no such kernels for {why}") from None
    except WrongRows as why:
        raise Mismatch(str(why)) from None


def _row_kernels(model: Transformer) -> RowKernels:
    if model.row_kernels is not None:
        return model.row_kernels
    if model.capture is not None:
        return model.capture.kernels
    if model.weights.embedding.device.type != "mps":
        raise NotHere("there are none: attention of few rows is PyTorch's, or a part of the kernels for CPUs")
    return compile_rows(model.config, model.kv.dtype)


def _state_kernels(model: Transformer) -> StateKernels:
    if model.state_kernels is not None:
        return model.state_kernels
    if model.weights.embedding.device.type != "mps" or not model.config.is_hybrid:
        raise NotHere("there are none: no layer is recurrent, or PyTorch or the kernels for CPUs compute them")
    return compile_states(model.config, model.kv.dtype)
