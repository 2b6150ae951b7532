"""What a step needs on the device and only the host knows, sent in one copy of each type."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable


class Part:
    """Some of a parcel's numbers.  `tensor`, `[numbers]`, is there once the parcel is sent."""

    __slots__ = ("tensor",)

    tensor: torch.Tensor

    @property
    def column(self) -> torch.Tensor:
        """`[numbers, 1]`."""
        return self.tensor[:, None]


class Parcel:
    """Numbers for the device, gathered on the host part by part.

    A copy from the host waits for all that the device has queued, so a step sends once, before its first layer.
    """

    def __init__(self) -> None:
        self._ints = _Pile(array("q"), torch.int64)
        self._floats = _Pile(array("f"), torch.float32)

    def ints(self, *lists: Iterable[int]) -> Part:
        """Add numbers that will be int64, list after list."""
        return self._ints.add(array("q", numbers) for numbers in lists)

    def floats(self, *lists: Iterable[float]) -> Part:
        """Add numbers that will be float32, list after list."""
        return self._floats.add(array("f", numbers) for numbers in lists)

    def send(self, device: torch.device) -> None:
        """Make the tensors of all parts; nothing can be added any more."""
        self._ints.send(device)
        self._floats.send(device)


class _Pile:
    """The parts of one type, in an array: a tensor takes that as it is, and a list number by number."""

    def __init__(self, numbers: array[int] | array[float], dtype: torch.dtype) -> None:
        self._numbers: array[Any] = numbers
        self._dtype = dtype
        self._parts: list[Part] = []
        self._sizes: list[int] = []

    def add(self, arrays: Iterable[array[Any]]) -> Part:
        before = len(self._numbers)
        for numbers in arrays:
            self._numbers += numbers
        part = Part()
        self._parts.append(part)
        self._sizes.append(len(self._numbers) - before)
        return part

    def send(self, device: torch.device) -> None:
        if not self._numbers:
            whole = torch.empty(0, dtype=self._dtype, device=device)  # which no buffer can be
        else:
            whole = torch.frombuffer(self._numbers, dtype=self._dtype).to(device)
        for part, tensor in zip(self._parts, whole.split_with_sizes(self._sizes), strict=True):
            part.tensor = tensor
