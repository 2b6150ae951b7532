"""Check that the kernels for attention of single rows compute what PyTorch's operations do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.devices.mps.rows import NoKernels, compile_rows
from runtime.devices.single_rows.check import WrongRows, check_rows
from runtime.selftest.findings import Figures, Mismatch, NotHere

if TYPE_CHECKING:
    from runtime.devices.single_rows.rows import RowKernels
    from runtime.nn.model import Transformer


def check_single_rows(model: Transformer) -> Figures:
    """Compare them on the model's device, also where the model was loaded without them since they were wrong there.

    Raises:
        Mismatch: they differ.
        NotHere: the device has none, or they do not have the model.
    """
    try:
        error = check_rows(_kernels(model), model.weights.embedding.device, model.kv.dtype, model.config.head_dim)
    except NoKernels as why:
        raise NotHere(f"no such kernels for {why}") from None
    except WrongRows as why:
        raise Mismatch(str(why)) from None
    return {"worst_error": error}


def _kernels(model: Transformer) -> RowKernels:
    if model.row_kernels is not None:
        return model.row_kernels
    if model.capture is not None:
        return model.capture.kernels
    if model.weights.embedding.device.type != "mps":
        raise NotHere("there are none: attention of few rows is PyTorch's, or a part of the kernels for CPUs")
    return compile_rows(model.config, model.kv.dtype)
