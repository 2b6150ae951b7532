"""Operations recorded once, to be run again by one call: CUDA graphs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import torch

from runtime.devices.cuda.rows import TritonRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.devices.single_rows.rows import RowKernels

logger = logging.getLogger("cede.model")


class Capture(Protocol):
    """Records work that reads and writes the same memory each time.

    Attributes:
        kernels: for what the work does with single rows.
    """

    kernels: RowKernels

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        """Do the work once, and return what does it again.

        Raises:
            RuntimeError: it holds something that cannot be recorded.
        """


class CudaCapture:
    """Records by CUDA graphs, which share the memory of what they compute in between.

    So a graph must leave nothing there that another one reads.

    Args:
        kernels: as the attribute of `Capture`.
    """

    def __init__(self, kernels: RowKernels) -> None:
        self.kernels = kernels
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        """See `Capture`."""
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            work()  # what is made at the first call, such as a kernel of Triton, cannot be made while recording
            self._stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                work()
            except BaseException:
                self._pool = torch.cuda.graph_pool_handle()  # that one stays marked as being recorded into
                raise
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph.replay


def open_capture(device: torch.device) -> Capture | None:
    """Return what records the layers of a model on this device; None, with a line in the log, where nothing can."""
    if device.type != "cuda":
        return None
    try:
        from runtime.devices.cuda.kernels import attend_split, join_splits, write_rows
    except ImportError as error:
        logger.info("no CUDA graphs of layers: %s", error)
        return None
    return CudaCapture(TritonRows(write_rows, attend_split, join_splits))
