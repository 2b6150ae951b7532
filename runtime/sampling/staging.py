"""Numbers that the host knows and a step needs on the device, sent in one copy of each type."""

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

    @property
    def column(self) -> torch.Tensor:
        """The numbers as `[numbers, 1]`."""
        return self.tensor[:, None]


class StagingBuffer:
    """Numbers for the device, gathered on the host part by part.

    A copy from the host waits for all that the device has queued, so a step sends once, before its first layer.
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

    def send(self, device: torch.device) -> None:
        """Copy everything to `device` and make the tensors of all parts; nothing can be added any more."""
        self._ints.send(device)
        self._floats.send(device)


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

    def send(self, device: torch.device) -> None:
        if not self._numbers:
            whole = torch.empty(0, dtype=self._dtype, device=device)  # `frombuffer` refuses an empty buffer
        else:
            whole = torch.frombuffer(self._numbers, dtype=self._dtype).to(device)
        for part, tensor in zip(self._parts, whole.split_with_sizes(self._sizes), strict=True):
            part.tensor = tensor
