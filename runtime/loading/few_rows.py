"""What computes layers of few rows where PyTorch is not the fastest: kernels of its own, or CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.cuda.capture import open_capture
from runtime.native.kernels import open_kernels

if TYPE_CHECKING:
    from runtime.cuda.capture import Capture
    from runtime.native.kernels import Kernels


def open_few_rows(native: str, device: torch.device) -> tuple[Kernels | None, Capture | None]:
    """Return the kernels that are to compute few rows on a CPU, and what records layers on CUDA; None for neither.

    To be called on the thread that runs the steps, whose number of CPU threads the kernels take over.

    Args:
        native: `auto`, or `off` for neither.
        device: of the model.
    """
    if native != "auto":
        return None, None
    if device.type == "cpu":
        return open_kernels(torch.get_num_threads()), None
    return None, open_capture(device)
