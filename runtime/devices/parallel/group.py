"""The ranks that compute a model together, as one of them sees them.

`torch.distributed` adds up: gloo on the CPU, over loopback, and NCCL on CUDA.  Its process groups are made here without
its global one.  PyTorch has no public names for that; its version is pinned.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch._C._distributed_c10d as c10d

from runtime.devices.parallel.marks import with_agreed_marks
from runtime.devices.parallel.shared_step import SharedStep
from runtime.errors import DeviceLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import torch

    from runtime.devices.parallel.share import Share
    from runtime.devices.parallel.shared_step import Sum
    from runtime.step.step import Segment

PATIENCE = timedelta(hours=12)  # of a sum: a rank that hangs is `--hang-timeout`'s to find out
LOOPBACK = "127.0.0.1"
GONE = "another rank is gone, so this one can compute nothing"


class Group:
    """Adds up over all ranks, and knows the step under way; used on the device thread only.

    Args:
        share: this rank's.
        reduce: adds up a tensor over all ranks, in place, in the same order on each.
    """

    def __init__(self, share: Share, reduce: Callable[[torch.Tensor], None]) -> None:
        self.share = share
        self._reduce = reduce
        self._step: SharedStep | None = None

    def begin(self, segments: Sequence[Segment], layers: int, sums: Sequence[Sum], device: torch.device) -> SharedStep:
        """Begin a step, which all ranks do with the same segments; the arguments are those of `SharedStep`."""
        self._step = SharedStep(segments, layers, sums, device, self._add_up, leads=self.share.leads)
        return self._step

    @contextmanager
    def step(self, segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
        """Give segments whose marks the ranks agree on, for one step; if that raises, all ranks leave it."""
        self._step = None
        try:
            yield with_agreed_marks(segments)
        except DeviceLost:
            raise
        except Exception:
            self.abort()
            raise

    def abort(self) -> None:
        """Let all ranks leave the step under way, if there is one."""
        if self._step is not None:
            self._step.abort()

    def _add_up(self, part: torch.Tensor) -> None:
        try:
            self._reduce(part)
        except RuntimeError as error:
            raise DeviceLost(GONE) from error


def process_group(share: Share, store: Path, device: torch.device) -> Any:  # noqa: ANN401  # PyTorch's stubs lack it
    """Meet the other ranks.

    Args:
        share: this rank's.
        store: a file that does not exist yet, the same for all; they find each other by it.
        device: this rank's.
    """
    return meet(c10d.FileStore(str(store), share.of), share, device)


def meet(store: c10d.Store, share: Share, device: torch.device) -> Any:  # noqa: ANN401
    """Meet the other ranks by a store that all of them have."""
    backend: Any = c10d.ProcessGroupNCCL if device.type == "cuda" else c10d.ProcessGroupGloo
    options = backend.Options() if device.type == "cuda" else backend._Options()  # noqa: SLF001
    options._timeout = PATIENCE  # noqa: SLF001
    if device.type != "cuda":
        options._devices = [backend.create_device(hostname=LOOPBACK)]  # noqa: SLF001
    return backend(store, share.rank, share.of, options)


def sums_of(ranks: Any) -> Callable[[torch.Tensor], None]:  # noqa: ANN401
    """Return what adds up a tensor over all of them, in place."""

    def reduce(part: torch.Tensor) -> None:
        ranks.allreduce([part]).wait()

    return reduce
