"""The device: its choice, its dtype and memory, and how far ahead of it the host may run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import torch

from runtime.common.host_memory import available_memory, host_memory_limit
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

# One layer may run while the next is being encoded; a third would only delay a cancel.
MAX_LAYERS_AHEAD = 2


def select_device(name: str) -> torch.device:
    """Return the device called `name` (auto, mps, cuda or cpu); `auto` takes the first of these that is available.

    Raises:
        CheckpointError: the device asked for is not available.
    """
    available: dict[str, Callable[[], bool]] = {
        "mps": torch.backends.mps.is_available,
        "cuda": torch.cuda.is_available,
        "cpu": lambda: True,
    }
    if name == "auto":
        name = next(candidate for candidate, there in available.items() if there())
    elif not available[name]():
        raise CheckpointError(f"device {name!r} is not available to this PyTorch ({torch.__version__})")
    return torch.device(name)


def settle_kernels(device: torch.device) -> None:
    """Keep PyTorch, in this process, from kernels that do not suit steps.

    cuDNN's attention, which PyTorch prefers on some GPUs in bfloat16, makes a plan for each new number of keys, and
    that number is new in nearly every step: 50 to 100 ms each on an H200 (bench/LOG.md).
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


def select_dtype(name: str, device: torch.device, checkpoint_dtype: str | None) -> torch.dtype:
    """Return the dtype to compute in: `auto` is the checkpoint's, but on a CPU what it computes fast.

    PyTorch would emulate bfloat16 where the CPU has no arithmetic for it: a 512-row product ran 7 times slower than in
    float32.  In float16, which few CPUs have, prompts took 7 times as long as in bfloat16 (bench/LOG.md).
    """
    if name != "auto":
        return _DTYPES[name]
    dtype = _DTYPES.get(checkpoint_dtype or "", torch.bfloat16)
    if device.type != "cpu":
        return dtype
    if not has_bfloat16_arithmetic():
        return torch.float32
    return torch.bfloat16 if dtype is torch.float16 else dtype


def has_bfloat16_arithmetic() -> bool:
    """Return whether this CPU has it and PyTorch uses it, which it does through oneDNN; not every build has that."""
    built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return built and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def free_memory(device: torch.device) -> int:
    """Return the bytes that could be allocated on `device` now without swapping, as far as the system says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return available_memory()


def memory_limit(device: torch.device) -> int:
    """Return the bytes beyond which nothing fits on `device` now: what is free or, where that is unknown, all."""
    return host_memory_limit() if device.type == "cpu" else free_memory(device)


def device_answers() -> bool:
    """Return whether the device in use still runs anything; called after something has failed.

    After an error such as a device-side assertion CUDA refuses all work until the process ends.  No other device is
    known to do so.
    """
    try:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


class _Event(Protocol):
    """A device's event, as `torch.cuda.Event` and `torch.mps.Event` are."""

    def record(self) -> None: ...
    def synchronize(self) -> None: ...


class RunAhead:
    """Bounds how many layers are encoded but not finished, on a device that queues work.

    MPS and CUDA return from an operation before it has run, so a cancel that is seen while *encoding* stops nothing
    that is already queued.  Waiting for the layer before last keeps the queue short without ever draining it.  On the
    CPU operations are synchronous and there is nothing to do.
    """

    def __init__(self, device: torch.device) -> None:
        self._new_event: Callable[[], _Event] | None = None
        if device.type != "cpu":
            self._new_event = torch.get_device_module(device).Event
        self._pending: deque[_Event] = deque()

    def layer_encoded(self) -> int:
        """Record the layer just encoded, wait until few enough are unfinished, and return how many are."""
        if self._new_event is None:
            return 0
        event = self._new_event()
        event.record()
        self._pending.append(event)
        while len(self._pending) > MAX_LAYERS_AHEAD:
            self._pending.popleft().synchronize()
        return len(self._pending)

    @property
    def unfinished(self) -> int:
        """Return how many layers the device may not have finished."""
        return len(self._pending)

    def drain(self) -> None:
        """Wait until every layer that was encoded is finished."""
        while self._pending:
            self._pending.popleft().synchronize()
