"""Numbers on their way: those that the host knows and a step needs on the device, and those that go back."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable


class StagedTensor:
    """Some of a staging buffer's numbers; `tensor`, `[numbers]`, exists once the buffer was sent."""

    __slots__ = ("tensor",)

    tensor: torch.Tensor

    @classmethod
    def of(cls, tensor: torch.Tensor) -> StagedTensor:
        """Return what is on the device already."""
        staged = cls()
        staged.tensor = tensor
        return staged

    @property
    def column(self) -> torch.Tensor:
        """The numbers as `[numbers, 1]`."""
        return self.tensor[:, None]


class StagingBuffer:
    """Numbers for the device, gathered on the host part by part.

    A copy from the host waits for all that the device has queued, unless it is told not to, so a step sends once,
    before its first layer: one copy of each type.
    """

    def __init__(self) -> None:
        self._ints = _TypedBuffer(array("q"), torch.int64)
        self._floats = _TypedBuffer(array("f"), torch.float32)

    def ints(self, *lists: Iterable[int]) -> StagedTensor:
        """Add numbers that will be int64, list after list."""
        return self._ints.add(array("q", numbers) for numbers in lists)

    def floats(self, *lists: Iterable[float]) -> StagedTensor:
        """Add numbers that will be float32, list after list."""
        return self._floats.add(array("f", numbers) for numbers in lists)

    def send(self, device: torch.device, *, waits: bool = True) -> None:
        """Copy everything to `device` and make the tensors of all parts; nothing can be added any more.

        Args:
            device: takes the copies.
            waits: for the device to have them.  If not, this object is to be kept until it does.
        """
        self._ints.send(device, waits=waits)
        self._floats.send(device, waits=waits)


class _TypedBuffer:
    """The parts of one type, in an array: a tensor takes an array as it is, and a list number by number."""

    def __init__(self, numbers: array[int] | array[float], dtype: torch.dtype) -> None:
        self._numbers: array[Any] = numbers
        self._dtype = dtype
        self._parts: list[StagedTensor] = []
        self._sizes: list[int] = []

    def add(self, arrays: Iterable[array[Any]]) -> StagedTensor:
        before = len(self._numbers)
        for numbers in arrays:
            self._numbers += numbers
        part = StagedTensor()
        self._parts.append(part)
        self._sizes.append(len(self._numbers) - before)
        return part

    def send(self, device: torch.device, *, waits: bool) -> None:
        if not self._numbers:
            whole = torch.empty(0, dtype=self._dtype, device=device)  # `frombuffer` refuses an empty buffer
        else:
            on_host = torch.frombuffer(self._numbers, dtype=self._dtype)
            if not waits and device.type == "cuda":
                on_host = on_host.pin_memory()  # CUDA waits for a copy of other memory
            whole = on_host.to(device, non_blocking=not waits)
        for part, tensor in zip(self._parts, whole.split_with_sizes(self._sizes), strict=True):
            part.tensor = tensor


class Readback:
    """Numbers on their way from the device to the host, while the device goes on with what it is given next.

    Args:
        numbers: a tensor, on any device.
    """

    def __init__(self, numbers: torch.Tensor) -> None:
        self._on_host = numbers.to("cpu", non_blocking=True)
        self._sent: Any = None  # an event of the device
        if numbers.device.type != "cpu":
            self._sent = torch.get_device_module(numbers.device).Event()
            self._sent.record()

    def tolist(self) -> list[Any]:
        """Wait until they are there, and return them."""
        if self._sent is not None:
            self._sent.synchronize()
        return list(self._on_host.tolist())
