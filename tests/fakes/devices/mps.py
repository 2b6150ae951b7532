"""Apple's GPU as PyTorch's fake tensors know it: shapes, dtypes and devices are true, nothing is computed.

PyTorch's `FakeTensorMode` refuses an operation whose tensors are on several devices, as the device itself would, and it
refuses to say what is in a tensor.  Some things a build without MPS cannot do even so; they are done here in other
ways, and more strictly:

- Indexing, `copy_` and a few more, for which Python's binding asks the device's guard.  Done here by the operations
  that they become.  An index on the CPU, which PyTorch would copy to the device, is refused.
- Attention, whose kernel is chosen by the device.  Done here by its formula, so its kernel on MPS is not tried.
- Numbers from a list: PyTorch remembers what a single one is, and would move it.  Made without them.
- Numbers from an array: what a buffer holds is not fake.  Made without them.
- Events.  Replaced by ones that are always over.
- Kernels of Metal.  What a launch is given is looked at (`tests/fakes/devices/metal/source.py`).

What the host reads is answered (each number is 1) and counted, and so is what it sends.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from runtime.selftest.readbacks import Readbacks
from tests.fakes.devices.metal.source import kernels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch._ops import OpOverload
    from typing_extensions import Buffer

CPU, MPS = torch.device("cpu"), torch.device("mps", 0)


class WrongDevice(AssertionError):
    """Something of the host's met something of the device's."""


class Traffic:
    """Counts of what the host has read from the device, and sent to it, by the name of what did so.

    Attributes:
        sent, answered: see there.
        launched: the names of Metal's kernels.
    """

    def __init__(self, copies: Readbacks) -> None:
        self.sent: list[str] = []
        self.answered: list[str] = []
        self.launched: list[str] = []
        self._copies = copies

    @property
    def read(self) -> list[str]:
        """Answers and copies; forgets nothing."""
        return [*self.answered, *self._copies.seen]

    def clear(self) -> None:
        """Begin to count anew."""
        self.sent.clear()
        self.answered.clear()
        self.launched.clear()
        self._copies.seen.clear()


class _Over:
    """An event of a device that has nothing to do."""

    def record(self) -> None: ...
    def synchronize(self) -> None: ...


class _Library:
    """Kernels of Metal, which look at what they are given and compute nothing."""

    def __init__(self, source: str, launched: list[str]) -> None:
        self._kernels = kernels_of(source)
        self._launched = launched

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what launches a kernel."""
        kernel = self._kernels[name]

        def launch(*arguments: object, threads: tuple[int, ...], group_size: tuple[int, ...]) -> None:
            kernel.check(arguments, threads, group_size, MPS)
            self._launched.append(name)

        return launch


class _Sends(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what becomes a tensor of the device's out of one of the host's."""

    def __init__(self, sent: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sent = sent

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if CPU in _devices((args, kwargs)) and MPS in _devices(result):
            self._sent.append(func.name().partition(".")[0])  # type: ignore[no-untyped-call]
        return result


class _FakeMps(TorchFunctionMode):
    """See the module's head."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic
        self._instead: dict[object, Callable[..., object]] = {
            torch.tensor: self._made,
            torch.Tensor.copy_: torch.ops.aten.copy_,
            torch.Tensor.__invert__: torch.ops.aten.bitwise_not,
            torch.Tensor.contiguous: torch.ops.aten.contiguous,
            torch.Tensor.__getitem__: _get,
            torch.Tensor.__setitem__: _set,
            F.scaled_dot_product_attention: _attention,
        }
        for name in ("item", "__bool__", "__int__", "__float__", "__index__"):
            self._instead[getattr(torch.Tensor, name)] = self._answer

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        func = self._instead.get(func, func)
        return func(*args, **(kwargs or {}))

    def _answer(self, tensor: torch.Tensor) -> int:
        if tensor.device == MPS:
            self._traffic.answered.append("item")
        return 1

    def _made(
        self, data: object, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> torch.Tensor:
        """`torch.tensor`."""
        numbers = np.asarray(data)
        if dtype is None:
            dtype = {"i": torch.int64, "f": torch.get_default_dtype(), "b": torch.bool}[numbers.dtype.kind]
        made = torch.empty(numbers.shape, dtype=dtype, device=device)
        if made.device == MPS:
            self._traffic.sent.append("tensor")
        return made


@contextmanager
def fake_mps() -> Iterator[Traffic]:
    """Everything in this context is fake, on whatever device; only what it is told to be on `MPS` is there."""

    def answer(tensor: torch.Tensor) -> object:
        traffic.answered.append("tolist")
        return _ones(list(tensor.shape))

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode(), FakeTensorMode(), Readbacks() as copies:
        traffic = Traffic(copies)
        patch.setattr(FakeTensor, "tolist", answer)
        patch.setattr(torch.mps, "Event", _Over)
        patch.setattr(torch, "frombuffer", _made_of_buffer)
        patch.setattr(torch.mps, "compile_shader", lambda source: _Library(source, traffic.launched))
        with _Sends(traffic.sent), _FakeMps(traffic):
            yield traffic


def _ones(shape: list[int]) -> object:
    return 1 if not shape else [_ones(shape[1:]) for _ in range(shape[0])]


def _devices(values: object) -> set[torch.device]:
    return {leaf.device for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)}


def _made_of_buffer(buffer: Buffer, *, dtype: torch.dtype) -> torch.Tensor:
    """`torch.frombuffer`, of an array or of bytes."""
    return torch.empty(memoryview(buffer).nbytes // dtype.itemsize, dtype=dtype)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> object:
    scores = query @ key.transpose(-1, -2) * (scale or 1.0)
    if attn_mask is not None:
        assert attn_mask.dtype in (torch.bool, query.dtype), "attention takes no other mask"
        scores = scores + attn_mask
    return torch.softmax(scores, dim=-1) @ value


def _get(tensor: torch.Tensor, index: object) -> torch.Tensor:
    view, at = _basic(tensor, index)
    return view if not any(one is not None for one in at) else torch.ops.aten.index.Tensor(view, at)


def _set(tensor: torch.Tensor, index: object, value: torch.Tensor | float) -> None:
    view, at = _basic(tensor, index)
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=tensor.dtype, device=tensor.device)
    if value.device != tensor.device:
        raise WrongDevice(f"rows on {value.device} are put into a tensor on {tensor.device}")
    if any(one is not None for one in at):
        torch.ops.aten.index_put_(view, at, value)
    else:
        torch.ops.aten.copy_(view, value)


def _basic(tensor: torch.Tensor, index: object) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """The view that all of the index but its tensors makes, and those tensors by the view's dimensions."""
    at: list[torch.Tensor | None] = []
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(one is Ellipsis for one in parts):
        where = next(i for i, one in enumerate(parts) if one is Ellipsis)
        named = sum(one is not None for one in parts) - 1
        parts[where : where + 1] = [slice(None)] * (tensor.dim() - named)
    for one in parts:
        match one:
            case None:
                tensor = tensor.unsqueeze(len(at))
                at.append(None)
            case slice():
                tensor = torch.ops.aten.slice.Tensor(tensor, len(at), one.start, one.stop, one.step or 1)
                at.append(None)
            case int():
                tensor = tensor.select(len(at), one)
            case torch.Tensor():
                if one.device != tensor.device:
                    raise WrongDevice(f"an index on {one.device} is used on a tensor on {tensor.device}")
                assert one.dtype == torch.int64, "how many rows a mask selects, only the device knows"
                at.append(one)
            case _:
                raise NotImplementedError(f"an index of {type(one).__name__}")
    return tensor, at
